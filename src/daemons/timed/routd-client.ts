// What a scheduler without the store asks of routd: which slots are due, that one has fired, and when its task runs next.
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { Problem } from '../../lib/http.ts'
import { tryJson } from '../../lib/json.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'

const TIMEOUT_MS = 10_000

const DueTasks = z.object({ tasks: z.array(z.object({ id: z.string() })) })

export interface RoutdOptions {
  /** ROUTD_URL. */
  readonly url: string
  /** Holds a bearer of the service; read at each request, because bearers expire and are replaced. */
  readonly bearerFile: string
}

export class RoutdClient {
  readonly #options: RoutdOptions

  constructor(options: RoutdOptions) {
    this.#options = options
  }

  /** The ids of tasks whose slots are ours for a minute. */
  async due(limit: number): Promise<string[]> {
    const reply = DueTasks.safeParse(await this.#ask('GET', `v1/tasks/due?limit=${limit}`))
    if (!reply.success) refuse('unavailable', 'routd answers with something else than tasks: is ROUTD_URL right?')
    return reply.data.tasks.map(({ id }) => id)
  }

  async logRun(task_id: string, run: { status: 'success' } | { status: 'error'; error: string }): Promise<void> {
    await this.#ask('POST', 'v1/tasks/runlog', { task_id, ...run })
  }

  async reschedule(id: string): Promise<void> {
    await this.#ask('POST', `v1/tasks/${encodeURIComponent(id)}/reschedule`, {})
  }

  async #ask(method: string, path: string, body?: object): Promise<unknown> {
    const { url, bearerFile } = this.#options
    const bearer = (await readFile(bearerFile, 'utf8').catch(() => refuseFile(bearerFile))).trim()
    const answer = await fetch(new URL(path, url.endsWith('/') ? url : `${url}/`), {
      method,
      headers: { Authorization: `Bearer ${bearer}`, ...(body ? { 'Content-Type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      // Followed, a redirect would take the bearer elsewhere.
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch(() => refuse('unavailable', `routd does not answer at ${url}`))
    const said = tryJson(await answer.text().catch(() => ''))
    if (answer.ok) return said
    const problem = Problem.safeParse(said).data
    if (answer.status >= 500 || !problem || problem.code === 'internal')
      return refuse('unavailable', `routd answered ${answer.status}`)
    throw new Refusal(problem.code, problem.detail, problem.hint)
  }
}

function refuseFile(path: string): never {
  refuse('unavailable', `cannot read ${path}`, 'ROUTD_BEARER_FILE must name a file with a bearer of service:timed')
}
