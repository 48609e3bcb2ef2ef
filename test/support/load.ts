// Clients that post to a hook as fast as they get responses and record every response; and a comparison of these records with
// the store.
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setImmediate as immediate } from 'node:timers/promises'

export interface LoadOptions {
  /** Each has one keep-alive connection and waits for each response. */
  readonly clients?: number
  /** Size of a body, besides the few bytes that identify it. */
  readonly padding?: (index: number) => number
  /** Total number of messages; by default until they are stopped or the server is gone. */
  readonly messages?: number
  readonly headers?: Record<string, string>
}

/** One request and its result. Times are from `performance.now()`. */
export interface Sent {
  readonly name: string
  readonly startedAt: number
  readonly endedAt?: number
  /** Absent if the connection ended before a response. */
  readonly status?: number
  readonly retryAfter?: string | undefined
}

export interface Load {
  readonly sent: readonly Sent[]
  /** Resolves when the first message is acknowledged. */
  readonly begun: Promise<void>
  /** Resolves when all clients have ended. */
  readonly ended: Promise<void>
  /** Waits for the responses of running requests. */
  stop(): Promise<void>
}

let loads = 0

/** A client ends when its connection ends: a killed server does not respond any more. */
export function load(url: string, options: LoadOptions = {}): Load {
  const { clients = 16, messages = Number.POSITIVE_INFINITY, padding = () => 200, headers = {} } = options
  const label = `load${++loads}`
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const sent: Sent[] = []
  const begun = Promise.withResolvers<void>()
  let count = 0
  let isStopped = false
  const client = async (): Promise<void> => {
    while (!isStopped && count < messages) {
      const index = count++
      const name = `${label}-${index}`
      const startedAt = performance.now()
      const answer = await post(url, { body: body(name, padding(index)), agent, headers }).catch(() => undefined)
      const retryAfter = answer?.headers['retry-after']
      sent.push({
        name,
        startedAt,
        ...(answer ? { endedAt: performance.now(), status: answer.statusCode ?? 0, retryAfter } : {}),
      })
      if (!answer) return
      if (isAcknowledged(answer.statusCode)) begun.resolve()
      // Let the event loop run, because refusals may arrive faster than its turns.
      else await immediate()
    }
  }
  const ended = Promise.all(Array.from({ length: clients }, client)).then(() => {
    agent.destroy()
    begun.reject(new Error(`nothing was acknowledged: ${JSON.stringify(statuses({ sent }))}`))
  })
  // Only callers that await it get the error.
  begun.promise.catch(() => {})
  return {
    sent,
    begun: begun.promise,
    ended,
    stop: () => {
      isStopped = true
      return ended
    },
  }
}

function body(name: string, padding: number): Buffer {
  return Buffer.from(`${name} ${'x'.repeat(padding)}`)
}

export interface Posted {
  readonly body: string | Uint8Array
  readonly agent?: Agent
  readonly headers?: Record<string, string>
}

/** Resolves when the response is complete; rejects when the connection ends early. */
export async function post(url: string, { body, agent, headers = {} }: Posted): Promise<IncomingMessage> {
  const asking = request(url, {
    method: 'POST',
    ...(agent ? { agent } : {}),
    headers: { 'Content-Type': 'application/octet-stream', ...headers },
  })
  asking.end(body)
  const [answer]: IncomingMessage[] = await once(asking, 'response')
  if (!answer) throw new Error('there is no answer')
  answer.resume()
  await once(answer, 'end')
  return answer
}

export function isAcknowledged(status: number | undefined): boolean {
  return status !== undefined && status >= 200 && status < 300
}

/** Counts each response; `none` is a broken connection. */
export function statuses({ sent }: Pick<Load, 'sent'>): Record<string, number> {
  const groups = Map.groupBy(sent, ({ status }) => String(status ?? 'none'))
  return Object.fromEntries([...groups].map(([status, all]) => [status, all.length]))
}

export interface Comparison {
  /** Acknowledged but not stored. */
  readonly lost: readonly string[]
  /** Stored more than once. */
  readonly doubled: readonly string[]
  /** Stored but not sent by a client. */
  readonly foreign: readonly string[]
  /** Stored although it was refused. */
  readonly refused: readonly string[]
  /** Stored without a response: the outcome is undefined. */
  readonly unanswered: number
  readonly acknowledged: number
}

/** Compares the records of the clients with the stored contents. */
export function compare(loads: readonly Pick<Load, 'sent'>[], stored: readonly Uint8Array[]): Comparison {
  const sent = loads.flatMap((load) => load.sent)
  const names = stored.map((content) => nameOf(content))
  const kept = new Set(names)
  const record = new Map(sent.map((one) => [one.name, one]))
  const acknowledged = sent.filter(({ status }) => isAcknowledged(status))
  const among = (test: (one: Sent) => boolean): string[] =>
    [...kept].filter((name) => {
      const one = record.get(name)
      return one !== undefined && test(one)
    })
  return {
    lost: acknowledged.map(({ name }) => name).filter((name) => !kept.has(name)),
    doubled: [...Map.groupBy(names, (name) => name)].filter(([, all]) => all.length > 1).map(([name]) => name),
    foreign: [...kept].filter((name) => !record.has(name)),
    refused: among(({ status }) => status !== undefined && !isAcknowledged(status)),
    unanswered: among(({ status }) => status === undefined).length,
    acknowledged: acknowledged.length,
  }
}

function nameOf(content: Uint8Array): string {
  return Buffer.from(content.subarray(0, 64)).toString('latin1').split(' ')[0] ?? ''
}
