// Client of routd's task API (`routd/task-routes.ts`), for a scheduler without the store.
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { Problem } from '../../lib/http/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'

const TIMEOUT_MS = 10_000

const DueTasks = z.object({ tasks: z.array(z.object({ id: z.string() })) })

export interface RoutdClientOptions {
  readonly url: string
  /** Read at each request, because bearer tokens expire and are replaced. */
  readonly bearerFile: string
}

export class RoutdClient {
  readonly #options: RoutdClientOptions

  constructor(options: RoutdClientOptions) {
    this.#options = options
  }

  /** Leases due tasks and returns their ids. */
  async due(limit: number): Promise<string[]> {
    const reply = DueTasks.safeParse(await this.#request('GET', `v1/tasks/due?limit=${limit}`))
    if (!reply.success) refuse('unavailable', 'the response of routd is not a list of tasks', 'check ROUTD_URL')
    return reply.data.tasks.map(({ id }) => id)
  }

  async logRun(task_id: string, run: { status: 'success' } | { status: 'error'; error: string }): Promise<void> {
    await this.#request('POST', 'v1/tasks/runlog', { task_id, ...run })
  }

  async reschedule(id: string): Promise<void> {
    await this.#request('POST', `v1/tasks/${encodeURIComponent(id)}/reschedule`, {})
  }

  async #request(method: string, path: string, body?: object): Promise<unknown> {
    const { url, bearerFile } = this.#options
    const bearer = (await readFile(bearerFile, 'utf8').catch(() => refuseFile(bearerFile))).trim()
    const response = await fetch(new URL(path, url.endsWith('/') ? url : `${url}/`), {
      method,
      headers: { Authorization: `Bearer ${bearer}`, ...(body ? { 'Content-Type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      // A redirect would send the bearer token to another server.
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch(() => refuse('unavailable', `cannot reach routd at ${url}`))
    const reply = tryParseJson(await response.text().catch(() => ''))
    if (response.ok) return reply
    const problem = Problem.safeParse(reply).data
    if (response.status >= 500 || !problem || problem.code === 'internal')
      return refuse('unavailable', `routd answered ${response.status}`)
    throw new Refusal(problem.code, problem.detail, problem.hint)
  }
}

function refuseFile(path: string): never {
  refuse('unavailable', `cannot read ${path}`, 'ROUTD_BEARER_FILE must be a file with a bearer token of service:timed')
}
