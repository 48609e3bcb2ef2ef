// Bodies of messages: read under a cap and under a budget for all of them together, so that no number of senders can
// fill the memory.
import type { IncomingMessage } from 'node:http'
import { utf8 } from '../../lib/http.ts'
import { parseJson } from '../../lib/json.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Visit } from './visit.ts'

/** JSON values in one body: a message has a handful, and a link takes hundreds of bodies a minute. */
export const LINK_VALUES = 1000

/** Some systems begin every text with a byte order mark; it is no part of the JSON. */
export function linkJson(body: Uint8Array): unknown {
  return parseJson(utf8(body).replace(/^\ufeff/, ''), LINK_VALUES)
}

/** The bytes of bodies that are read and not yet written. */
export class Budget {
  readonly #max: number
  #used = 0

  constructor(max: number) {
    this.#max = max
  }

  take(bytes: number): boolean {
    if (this.#used + bytes > this.#max) return false
    this.#used += bytes
    return true
  }

  give(bytes: number): void {
    this.#used -= bytes
  }
}

export function tooLarge(max: number): Refusal {
  return new Refusal('too_large', `the body is larger than ${max} bytes`)
}

function overBudget(): Refusal {
  return new Refusal('unavailable', 'more is being sent than can be taken', 'try again in a moment')
}

/** Judged by its declared length before a byte is read. */
export function declaredFault({ headers }: IncomingMessage, max: number): Refusal | undefined {
  const declared = headers['content-length']
  return declared !== undefined && Number(declared) > max ? tooLarge(max) : undefined
}

/** The whole body in memory of its own; what is taken of the budget is the caller's to give back. */
export function readBody({ request, response }: Visit, max: number, budget: Budget): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    let first: Buffer | undefined
    let more: Buffer[] | undefined
    let length = 0
    const fail = (refusal: Refusal): void => {
      budget.give(length)
      length = 0
      first = more = undefined
      request.off('data', take)
      // What still comes is dropped, so that whoever is sending reads the answer and not a reset.
      request.resume()
      reject(refusal)
    }
    const take = (chunk: Buffer): void => {
      if (length + chunk.length > max) return void fail(tooLarge(max))
      if (!budget.take(chunk.length)) return void fail(overBudget())
      length += chunk.length
      // Nearly all bodies are one chunk.
      if (first === undefined) first = chunk
      else if (more === undefined) more = [first, chunk]
      else more.push(chunk)
    }
    // Gone while the link was looked for: nothing would ever come.
    if (request.destroyed && !request.complete) return void fail(new Refusal('invalid', 'the body broke off'))
    request.on('data', take)
    request.on('end', () => resolve(more === undefined ? (first ?? NOTHING) : Buffer.concat(more)))
    request.on('close', () => {
      if (!request.complete) fail(new Refusal('invalid', 'the body broke off'))
    })
    if (request.headers.expect !== undefined) response.writeContinue()
  })
}

const NOTHING = new Uint8Array()
