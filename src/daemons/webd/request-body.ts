// Reads request bodies under a size limit each and a memory budget shared by all, so that no number of senders can
// exhaust memory.
import type { IncomingMessage } from 'node:http'
import { guard } from '../../lib/fault-boundary.ts'
import { GrowingBuffer } from '../../lib/growing-buffer.ts'
import { utf8 } from '../../lib/http/http.ts'
import { Refusal } from '../../lib/refusal.ts'
import { parseJson } from '../../lib/text/json.ts'
import type { LinkRequest } from './link-request.ts'

/** Limit of JSON values in one body: a message has a handful, and a link accepts hundreds of bodies a minute. */
export const LINK_JSON_VALUES_MAX = 1000

/** Skips a byte order mark, which some systems put in front of the JSON. */
export function parseLinkJson(body: Uint8Array): unknown {
  return parseJson(utf8(body).replace(/^\ufeff/, ''), LINK_JSON_VALUES_MAX)
}

/** Counts the bytes of bodies that are in memory and not yet stored. */
export class BodyBudget {
  readonly #max: number
  #used = 0

  constructor(max: number) {
    this.#max = max
  }

  reserve(bytes: number): boolean {
    if (this.#used + bytes > this.#max) return false
    this.#used += bytes
    return true
  }

  release(bytes: number): void {
    this.#used -= bytes
  }
}

export function tooLarge(max: number): Refusal {
  return new Refusal('too_large', `the body is larger than ${max} bytes`)
}

export function overBudget(): Refusal {
  return new Refusal('unavailable', 'too many request bodies are in memory', 'try again in a moment')
}

/** Rejects a body by its Content-Length before reading it. */
export function mustBeWithinLimit({ headers }: IncomingMessage, max: number): void {
  if (Number(headers['content-length'] ?? 0) > max) throw tooLarge(max)
}

/** Reads the whole body. The caller releases its bytes from the budget. */
export function readBody({ incoming, response }: LinkRequest, max: number, budget: BodyBudget): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    let first: Buffer | undefined
    let more: GrowingBuffer | undefined
    let length = 0
    const fail = (refusal: Refusal): void => {
      budget.release(length)
      length = 0
      first = more = undefined
      incoming.off('data', onData)
      // Discard the rest of the body, so that the client reads the response and not a connection reset.
      incoming.resume()
      reject(refusal)
    }
    const take = (chunk: Buffer): void => {
      if (length + chunk.length > max) return void fail(tooLarge(max))
      if (!budget.reserve(chunk.length)) return void fail(overBudget())
      length += chunk.length
      // Nearly all bodies are one chunk.
      if (first === undefined) {
        first = chunk
        return
      }
      if (more === undefined) {
        more = new GrowingBuffer()
        more.append(first)
      }
      more.append(chunk)
    }
    const onData = guard(reject, take)
    const failIfIncomplete = (): void => {
      if (!incoming.complete) fail(new Refusal('invalid', 'request body ended early'))
    }
    // A client that disconnected during the link lookup emits no further event.
    if (incoming.destroyed && !incoming.complete) return void failIfIncomplete()
    incoming.on('data', onData)
    incoming.on('end', () => resolve(more?.bytes ?? first ?? NOTHING))
    incoming.on('close', guard(reject, failIfIncomplete))
    if (incoming.headers.expect !== undefined) response.writeContinue()
  })
}

const NOTHING = new Uint8Array()
