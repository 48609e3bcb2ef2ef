// Clients that send on a schedule, whether or not earlier requests were answered: a server that stalls keeps all of them waiting.
import { once } from 'node:events'
import { Agent, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { isAcknowledged, type Sent } from './load.ts'

const TICK_MS = 5

export interface PacedRequest {
  readonly url: string
  /** Sent with POST. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Without a status the connection failed, for this reason. */
export interface PacedResponse extends Sent {
  readonly body?: string
  readonly error?: string
}

export interface PacedLoad {
  /** Sent so far, answered or not. */
  readonly count: number
  readonly responses: readonly PacedResponse[]
  /** Stops sending and waits for all responses. */
  stop(): Promise<void>
}

/** `create` returns the request with this name, which is unique; times count from the moment of sending. */
export function startPacedLoad(perSecond: number, label: string, create: (name: string) => PacedRequest): PacedLoad {
  const agent = new Agent({ keepAlive: true })
  const responses: PacedResponse[] = []
  const running = new Set<Promise<void>>()
  const startedAt = performance.now()
  let count = 0
  const send = async (name: string): Promise<void> => {
    const started = performance.now()
    const result = await exchange(create(name), agent).catch((error: unknown) => ({ error: String(error) }))
    responses.push({ name, startedAt: started, endedAt: performance.now(), ...result })
  }
  const tick = setInterval(() => {
    const due = ((performance.now() - startedAt) * perSecond) / 1000
    while (count < due) {
      const sending = send(`${label}-${count++}`).finally(() => running.delete(sending))
      running.add(sending)
    }
  }, TICK_MS)
  return {
    get count() {
      return count
    },
    responses,
    stop: async () => {
      clearInterval(tick)
      await Promise.all(running)
      agent.destroy()
    },
  }
}

async function exchange({ url, body, headers }: PacedRequest, agent: Agent): Promise<{ status: number; body: string }> {
  const options: RequestOptions = {
    agent,
    method: body === undefined ? 'GET' : 'POST',
    ...(headers ? { headers } : {}),
  }
  const asking = request(url, options)
  asking.end(body)
  const [response]: IncomingMessage[] = await once(asking, 'response')
  if (!response) throw new Error('there is no response')
  return { status: response.statusCode ?? 0, body: await text(response) }
}

/** Milliseconds. */
export function longestWait(loads: readonly Pick<PacedLoad, 'responses'>[]): number {
  return Math.max(...loads.flatMap(({ responses }) => responses.map((each) => (each.endedAt ?? 0) - each.startedAt)))
}

/** Requests without a response of success, in words. */
export function failures({ responses }: Pick<PacedLoad, 'responses'>): string[] {
  const failed = responses.filter(({ status }) => !isAcknowledged(status))
  return failed.map(({ name, status, body, error }) => `${name}: ${error ?? `${status} ${body}`}`)
}
