// What the front door lets through of the head of a request, and what it says itself: only it may say who somebody is.
import { isIdentityHeader } from '../core/proxyd-routes.ts'
import { deleteHops, withoutHops } from '../lib/hop-headers.ts'

/** Nobody else's word for it gets past; and some backends read _ as -. */
const SAID_BY_US = /^(x-user-.*|x-chat-.*|x-folder|x-group-name|x-forwarded-.*|forwarded|x-real-ip|x-request-id)$/

function isOurs(name: string): boolean {
  return SAID_BY_US.test(name.toLowerCase().replaceAll('_', '-'))
}

/** What we say, by name; what is undefined is left out. */
export type Said = Readonly<Record<string, string | undefined>>

export interface Passed {
  /** Names in lower case that stay as they came, unless they say who somebody is. */
  readonly preserve?: ReadonlySet<string>
  /** Further names in lower case that stay outside. */
  readonly drop?: ReadonlySet<string>
}

const NONE: ReadonlySet<string> = new Set()

/** Names and values in turn, as Node has them; so the result. */
export function onwardHeaders(
  raw: readonly string[],
  said: Said,
  { preserve = NONE, drop = NONE }: Passed = {},
): string[] {
  const headers: string[] = []
  const kept = new Set<string>()
  const came = withoutHops(raw)
  for (let at = 0; at < came.length; at += 2) {
    const [name = '', value = ''] = [came[at], came[at + 1]]
    const low = name.toLowerCase()
    const isKept = preserve.has(low) ? !isIdentityHeader(low) : !isOurs(name) && !drop.has(low)
    if (!isKept) continue
    kept.add(low)
    headers.push(name, value)
  }
  for (const [name, value] of Object.entries(said)) {
    if (value !== undefined && !kept.has(name.toLowerCase())) headers.push(name, headerText(value))
  }
  return headers
}

/** The same on the headers of a request that stays in this process. */
export function cleanHeaders(headers: Headers, said: Said): void {
  deleteHops(headers)
  for (const name of [...headers.keys()]) if (isOurs(name)) headers.delete(name)
  for (const [name, value] of Object.entries(said)) if (value !== undefined) headers.set(name, headerText(value))
}

/** Names of people are of any script; a header is not. */
export function headerText(value: string): string {
  return value.toWellFormed().replace(/[^\x20-\x24\x26-\x7e]/gu, encodeURIComponent)
}

/** An address for Location: what it has encoded already stays. */
export function locationText(value: string): string {
  return value.toWellFormed().replace(/[^\x21-\x7e]/gu, encodeURIComponent)
}
