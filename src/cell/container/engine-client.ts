// Calls a container engine by its HTTP API on a unix socket: Docker from 20.10 on, or Podman's compatible API. Only the few
// calls that agents' containers need; client libraries are many times larger.
import { statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'

/** API of Docker 20.10. */
const OLDEST_API = 1.41
/** Newer engines refuse the oldest versions; this one is known to all since Docker 25. */
const NEWEST_API = 1.44
/** For an engine that hangs. */
const CALL_MS = 60_000
const RESPONSE_MAX = 8 * 1_048_576

const EngineVersion = z.object({
  ApiVersion: z.string(),
  MinAPIVersion: z.string().optional(),
  Components: z.array(z.object({ Name: z.string() })).nullish(),
})
const EngineInfo = z.object({ SecurityOptions: z.array(z.string()).nullish() })
const ImageDetails = z.object({ Config: z.object({ Env: z.array(z.string()).nullish() }).nullish() })
const Created = z.object({ Id: z.string() })
const ListedContainers = z.array(z.object({ Id: z.string(), Labels: z.record(z.string(), z.string()).nullish() }))

export interface ListedContainer {
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
}

interface EngineCall {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly body?: object
}

interface EngineResponse {
  readonly status: number
  readonly body: string
}

export class EngineClient {
  readonly socket: string
  readonly kind: 'docker' | 'podman'
  /** Whether the engine runs without root. */
  readonly isRootless: boolean
  /** Whether the users of containers are other users of the machine, unless a container asks for the same ones. */
  readonly mapsUsers: boolean
  readonly #agent: Agent
  readonly #prefix: string

  private constructor(
    socket: string,
    agent: Agent,
    {
      kind,
      isRootless,
      mapsUsers,
      prefix,
    }: Pick<EngineClient, 'kind' | 'isRootless' | 'mapsUsers'> & { prefix: string },
  ) {
    this.socket = socket
    this.kind = kind
    this.isRootless = isRootless
    this.mapsUsers = mapsUsers
    this.#agent = agent
    this.#prefix = prefix
  }

  /** Refuses with a remedy if the engine cannot be used. */
  static async open(socket: string): Promise<EngineClient> {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 })
    try {
      const version = read(EngineVersion, await send(socket, agent, { method: 'GET', path: '/version' }), 'version')
      const [newest, oldest] = [Number(version.ApiVersion), Number(version.MinAPIVersion ?? 0)]
      if (!(newest >= OLDEST_API))
        refuse(
          'unavailable',
          `the container engine at ${socket} is too old (API ${version.ApiVersion})`,
          'install Docker 20.10 or newer, or Podman 4 or newer',
        )
      const prefix = `/v${Math.max(oldest, Math.min(newest, NEWEST_API)).toFixed(2)}`
      const info = read(EngineInfo, await send(socket, agent, { method: 'GET', path: `${prefix}/info` }), 'info')
      const options = (info.SecurityOptions ?? []).join(' ')
      return new EngineClient(socket, agent, {
        kind: version.Components?.some(({ Name }) => /podman/i.test(Name)) ? 'podman' : 'docker',
        isRootless: options.includes('rootless'),
        mapsUsers: options.includes('name=userns'),
        prefix,
      })
    } catch (error) {
      agent.destroy()
      throw error
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  /** The PATH of an image; undefined if the image is missing. */
  async imagePath(image: string): Promise<{ readonly path: string | undefined } | undefined> {
    const response = await this.#call({ method: 'GET', path: `/images/${encodeURIComponent(image)}/json` })
    if (response.status === 404) return undefined
    const env = read(ImageDetails, response, 'image').Config?.Env ?? []
    return { path: env.find((line) => line.startsWith('PATH='))?.slice('PATH='.length) }
  }

  /** Returns the id of the new container. */
  async create(name: string, body: object): Promise<string> {
    const path = `/containers/create?name=${encodeURIComponent(name)}`
    return read(Created, await this.#call({ method: 'POST', path, body }), 'create a container').Id
  }

  async start(id: string): Promise<void> {
    const response = await this.#call({ method: 'POST', path: `/containers/${id}/start` })
    if (response.status >= 300) fail(response, 'start a container')
  }

  /** Kills it if it runs, and returns when it is gone. */
  async remove(id: string): Promise<void> {
    const removed = await this.#call({ method: 'DELETE', path: `/containers/${id}?force=true&v=true` })
    // The engine is removing it already, because its first process has ended.
    const isUnderway = removed.status === 409
    const wait = { method: 'POST', path: `/containers/${id}/wait?condition=removed` } as const
    const response = isUnderway ? await this.#call(wait) : removed
    if (response.status >= 300 && response.status !== 404) fail(response, 'remove a container')
  }

  /** Containers in every state with this label. */
  async list(label: string): Promise<ListedContainer[]> {
    const filters = encodeURIComponent(JSON.stringify({ label: [label] }))
    const response = await this.#call({ method: 'GET', path: `/containers/json?all=true&filters=${filters}` })
    return read(ListedContainers, response, 'list containers').map(({ Id, Labels }) => ({
      id: Id,
      labels: Labels ?? {},
    }))
  }

  #call(call: EngineCall): Promise<EngineResponse> {
    return send(this.socket, this.#agent, { ...call, path: this.#prefix + call.path })
  }
}

async function send(socketPath: string, agent: Agent, { method, path, body }: EngineCall): Promise<EngineResponse> {
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const headers = {
    Host: 'engine',
    ...(bytes && { 'Content-Type': 'application/json' }),
    ...(method === 'GET' ? {} : { 'Content-Length': bytes?.length ?? 0 }),
  }
  try {
    const signal = AbortSignal.timeout(CALL_MS)
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const options = { socketPath, agent, method, path, headers, signal }
      request(options, resolve).on('error', reject).end(bytes)
    })
    if (Number(response.headers['content-length'] ?? 0) > RESPONSE_MAX) response.destroy()
    return { status: response.statusCode ?? 0, body: await text(response) }
  } catch (error) {
    return refuseEngine(socketPath, error)
  }
}

async function refuseEngine(socket: string, error: unknown): Promise<never> {
  const code = errnoCode(error)
  const others = 'set ENGINE_SOCKET to its socket, or SANDBOX=bwrap in .env'
  if (code === 'ENOENT')
    refuse('unavailable', `there is no container engine at ${socket}`, `start it (systemctl start docker), ${others}`)
  if (code === 'EACCES' || code === 'EPERM') {
    const group = await groupOf(socket)
    refuse(
      'unavailable',
      `no permission to use the container engine at ${socket}`,
      `add the user of svc to the group ${group} (usermod -aG ${group} <user>) and start svc again, or set SANDBOX=bwrap in .env`,
    )
  }
  const cause = error instanceof Error && error.name === 'TimeoutError' ? 'no response' : (code ?? String(error))
  return refuse(
    'unavailable',
    `the container engine at ${socket} does not answer (${cause})`,
    `start it (systemctl start docker), ${others}`,
  )
}

/** The name of the socket's group, or its number. */
async function groupOf(socket: string): Promise<string> {
  const gid = statSync(socket, { throwIfNoEntry: false })?.gid
  const groups = await readFile('/etc/group', 'utf8').catch(() => '')
  const line = groups.split('\n').find((each) => each.split(':')[2] === String(gid))
  return line?.split(':')[0] ?? String(gid ?? 'docker')
}

function read<T>(schema: z.ZodType<T>, response: EngineResponse, action: string): T {
  if (response.status >= 300) return fail(response, action)
  const parsed = schema.safeParse(tryParseJson(response.body))
  return parsed.success
    ? parsed.data
    : refuse('unavailable', `the container engine sent an invalid response (${action})`)
}

/** The engine's sentence is in `message`. */
function fail({ status, body }: EngineResponse, action: string): never {
  const parsed = z.object({ message: z.string() }).safeParse(tryParseJson(body))
  const sentence = parsed.success ? parsed.data.message : `status ${status}`
  throw new Refusal('unavailable', `the container engine cannot ${action}: ${sentence.slice(0, 500)}`)
}
