// What somebody asks to be registered: checked as a whole, and put in its one spelling. The admin listener, the state file
// and whoever starts the proxy inside another process all come through here.
import { z } from 'zod'
import { parse } from '../lib/parse.ts'
import { refuse } from '../lib/refusal.ts'
import { canonicalAddress } from './address-text.ts'
import { classOf } from './addresses.ts'
import { parseEntry } from './entry.ts'
import { parseHost } from './host.ts'
import type { AllowedEndpoint, Entry } from './match.ts'

/** Of one entry. A longer list is no allowlist any more, and every change of it is written whole. */
export const HOSTS_MAX = 10_000
const ID_MAX = 128
const SHOWN_MAX = 80
const ENDPOINTS_MAX = 100
/** So many bad hosts are told. */
const TOLD_MAX = 20

const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}]*$/u

const Id = z
  .string()
  .refine((id) => id.trim() !== '', { error: 'must not be empty', abort: true })
  // Counted as people count: by characters.
  .refine((id) => id.length <= 2 * ID_MAX && [...id].length <= ID_MAX, {
    error: `is longer than ${ID_MAX} characters`,
    abort: true,
  })
  .refine((id) => PRINTABLE.test(id), { error: 'must be of printable characters' })

// Counted before its texts are looked at: a fault for each of half a million would be an answer of half a million.
const Hosts = z.array(z.unknown()).max(HOSTS_MAX).pipe(z.array(z.string()))

const Registration = z.strictObject({ ip: z.string(), id: Id, allowlist: Hosts })

const AllowlistChange = z.strictObject({ allowlist: Hosts })

const SocketSourceInput = z.strictObject({
  id: Id,
  allowlist: Hosts,
  endpoints: z
    .array(z.strictObject({ host: z.string(), port: z.int().min(1).max(65_535) }))
    .max(ENDPOINTS_MAX)
    .optional(),
})

const Removal = z.strictObject({ ip: z.string() })

export interface Registered {
  readonly entry: Entry
  /** Sentences about hosts that allow more than they seem to. */
  readonly warnings: readonly string[]
}

/** Refused as a whole, with a sentence for each host that can be no entry. */
export function readRegistration(raw: unknown): Registered {
  const { ip, id, allowlist } = parse(Registration, raw)
  const { hosts, warnings } = readHosts(allowlist)
  return { entry: { ip: readAddress(ip), id, allowlist: hosts }, warnings }
}

export interface SocketRegistration extends Pick<Entry, 'id' | 'allowlist'> {
  /** With canonical hosts. */
  readonly endpoints: readonly AllowedEndpoint[]
  readonly warnings: readonly string[]
}

/** A source that has no address: it is known by its listener. */
export function readSocketSource(raw: unknown): SocketRegistration {
  const { id, allowlist, endpoints = [] } = parse(SocketSourceInput, raw)
  const { hosts, warnings } = readHosts(allowlist)
  return { id, allowlist: hosts, endpoints: endpoints.map(readEndpoint), warnings }
}

export interface CheckedHosts {
  /** Canonical, without repeats. */
  readonly hosts: readonly string[]
  readonly warnings: readonly string[]
}

export function readAllowlist(allowlist: unknown): CheckedHosts {
  return readHosts(parse(AllowlistChange, { allowlist }).allowlist)
}

function readHosts(allowlist: readonly string[]): CheckedHosts {
  const entries = allowlist.map((text) => parseEntry(text))
  const faults = entries.flatMap((entry) => ('fault' in entry ? [entry.fault] : []))
  if (faults.length > 0) refuse('invalid', `the allowlist has what can be no entry: ${joined(faults)}`)
  const good = entries.flatMap((entry) => ('fault' in entry ? [] : [entry]))
  return {
    hosts: [...new Set(good.map(({ host }) => host))],
    warnings: good.flatMap(({ warning }) => (warning === undefined ? [] : [warning])),
  }
}

function readEndpoint({ host: text, port }: AllowedEndpoint): AllowedEndpoint {
  const host = parseHost(text)
  if (host) return { host: host.text, port }
  const shown = JSON.stringify(text.slice(0, SHOWN_MAX))
  return refuse('invalid', `the host of an endpoint must be a host name or an IP address, not ${shown}`)
}

/** The address of whoever is to be forgotten. */
export function readRemoval(raw: unknown): string {
  return readAddress(parse(Removal, raw).ip)
}

function readAddress(text: string): string {
  const ip = canonicalAddress(text)
  // No packet comes from there: whoever writes it means everybody, and would have registered nobody.
  if (ip === '0.0.0.0' || ip === '::') refuse('invalid', `ip must be the address of one source, not ${ip}`)
  // The proxy sees no zone: two machines on two links may have the same one, and would share an entry.
  if (ip?.includes(':') && classOf(ip) === 'link-local')
    refuse('invalid', `ip must be the address of one source, not link-local IPv6, which may be on each link: ${ip}`)
  if (ip !== undefined) return ip
  const shown = JSON.stringify(text.slice(0, SHOWN_MAX))
  return refuse('invalid', `ip must be one IPv4 or IPv6 address, without zone, mask or leading zeros, not ${shown}`)
}

function joined(faults: readonly string[]): string {
  const more = faults.length > TOLD_MAX ? [`And ${faults.length - TOLD_MAX} more.`] : []
  return [...faults.slice(0, TOLD_MAX), ...more].join(' ')
}
