// Clients that post to a hook as fast as they are answered and write down every answer; and the comparison of what they
// wrote down with what is stored.
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setImmediate as immediate } from 'node:timers/promises'

export interface LoadOptions {
  /** Each has one connection, kept alive, and waits for its answer. */
  readonly clients?: number
  /** Bytes of a body, beside the few that name it. */
  readonly padding?: (index: number) => number
  /** How many messages all of them send together; without it, until they are stopped or nobody answers. */
  readonly messages?: number
  readonly headers?: Record<string, string>
}

/** One request and what came of it. Times are of `performance.now()`. */
export interface Sent {
  readonly name: string
  readonly startedAt: number
  readonly endedAt?: number
  /** Absent where the connection broke before an answer came. */
  readonly status?: number
  readonly retryAfter?: string | undefined
}

export interface Load {
  readonly sent: readonly Sent[]
  /** Resolved when the first message is acknowledged. */
  readonly begun: Promise<void>
  /** Resolved when all clients have ended. */
  readonly ended: Promise<void>
  /** Lets what is under way be answered. */
  stop(): Promise<void>
}

let loads = 0

/** A client ends when its connection breaks: whoever was killed answers no more. */
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
      // Refusals may come faster than the event loop turns, and others live in this process.
      else await immediate()
    }
  }
  const ended = Promise.all(Array.from({ length: clients }, client)).then(() => {
    agent.destroy()
    begun.reject(new Error(`nothing was acknowledged: ${JSON.stringify(statuses({ sent }))}`))
  })
  // Only whoever waits for it is to hear of it.
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

/** Answers when the whole answer is read; rejects when the connection breaks. */
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

/** How often each answer came; `none` is a broken connection. */
export function statuses({ sent }: Pick<Load, 'sent'>): Record<string, number> {
  const groups = Map.groupBy(sent, ({ status }) => String(status ?? 'none'))
  return Object.fromEntries([...groups].map(([status, all]) => [status, all.length]))
}

export interface Comparison {
  /** Acknowledged, and not stored. */
  readonly lost: readonly string[]
  /** Stored more than once. */
  readonly doubled: readonly string[]
  /** Stored, and sent by nobody. */
  readonly foreign: readonly string[]
  /** Stored although the answer was a refusal. */
  readonly refused: readonly string[]
  /** Stored without an answer: the sender cannot know, and nobody promised. */
  readonly unanswered: number
  readonly acknowledged: number
}

/** Holds the clients' record against the stored contents. */
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
