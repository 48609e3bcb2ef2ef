// Reads an event stream like a browser, and can disconnect at any byte.
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'

export interface StreamEvent {
  readonly id: string
  readonly event: string
  readonly data: string
}

export interface Reading {
  readonly status: number
  /** Only complete events, which end with a blank line. */
  readonly events: readonly StreamEvent[]
  /** How the stream ended. */
  readonly end: 'closed' | 'cut' | 'broken'
}

export interface ReadOptions {
  readonly lastId?: string | undefined
  /** After this many bytes of the body the connection is destroyed and the rest ignored. */
  readonly cutAfter?: number
  /** Returns true to stop reading. */
  readonly onEvent?: (event: StreamEvent) => boolean | undefined
}

/** Rejects if it cannot connect. */
export async function readEvents(url: string, options: ReadOptions = {}): Promise<Reading> {
  const { lastId, cutAfter = Number.POSITIVE_INFINITY, onEvent } = options
  const asking = request(url, {
    agent: false,
    headers: { Accept: 'text/event-stream', ...(lastId === undefined ? {} : { 'Last-Event-Id': lastId }) },
  })
  asking.end()
  const [answer]: IncomingMessage[] = await once(asking, 'response')
  if (!answer) throw new Error('there is no answer')
  const status = answer.statusCode ?? 0
  const events: StreamEvent[] = []
  const parser = new EventParser()
  let left = cutAfter
  const done = (end: Reading['end']): Reading => {
    asking.destroy()
    return { status, events, end }
  }
  if (left === 0) return done('cut')
  try {
    for await (const chunk of answer) {
      if (!Buffer.isBuffer(chunk)) throw new Error('a stream gives bytes')
      for (const event of parser.push(chunk.subarray(0, left))) {
        events.push(event)
        if (onEvent?.(event)) return done('cut')
      }
      left -= chunk.length
      if (left <= 0) return done('cut')
    }
  } catch {
    // The server is gone.
    return done('broken')
  }
  return done('closed')
}

/** Returns a function that takes bytes and returns the completed events. */
export class EventParser {
  #rest = Buffer.alloc(0)

  push(bytes: Uint8Array): StreamEvent[] {
    this.#rest = Buffer.concat([this.#rest, bytes])
    const end = this.#rest.lastIndexOf('\n\n')
    if (end < 0) return []
    const whole = this.#rest.subarray(0, end).toString('utf8')
    this.#rest = this.#rest.subarray(end + 2)
    return whole.split('\n\n').flatMap(readEvent)
  }
}

/** Comments and fields such as `retry` alone are not events. */
function readEvent(text: string): StreamEvent[] {
  const fields = text.split('\n').map((line): [string, string] => {
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    return [name, value]
  })
  const all = (name: string): string[] => fields.filter(([field]) => field === name).map(([, value]) => value)
  const data = all('data')
  if (data.length === 0) return []
  return [{ id: all('id').at(-1) ?? '', event: all('event').at(-1) ?? 'message', data: data.join('\n') }]
}
