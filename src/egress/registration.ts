// What somebody asks to be registered: checked as a whole, and put in its one spelling. The admin listener, the state file
// and whoever starts the proxy inside another process all come through here.
import { z } from 'zod'
import { parse } from '../lib/parse.ts'
import { breadthWarning } from '../lib/public-suffix.ts'
import { refuse } from '../lib/refusal.ts'
import { canonicalAddress } from './address-text.ts'
import { type AddressClass, classOf } from './addresses.ts'
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

/** Refused as a whole, with a sentence for each host that can be no entry. */
export function readRegistration(raw: unknown): Entry {
  const { ip, id, allowlist } = parse(Registration, raw)
  const hosts = readHosts(allowlist)
  return { ip: readAddress(ip), id, allowlist: hosts }
}

/** Sentences about hosts of a list that allow more than they seem to. */
export function warningsOf(allowlist: readonly string[]): readonly string[] {
  const warnings = allowlist.flatMap((host) => breadthWarning(host) ?? [])
  const more = warnings.length - TOLD_MAX
  return [...warnings.slice(0, TOLD_MAX), ...(more > 0 ? [`so do ${more} more`] : [])]
}

export interface SocketRegistration extends Pick<Entry, 'id' | 'allowlist'> {
  /** With canonical hosts. */
  readonly endpoints: readonly AllowedEndpoint[]
}

/** A source that has no address: it is known by its listener. */
export function readSocketSource(raw: unknown): SocketRegistration {
  const { id, allowlist, endpoints = [] } = parse(SocketSourceInput, raw)
  return { id, allowlist: readHosts(allowlist), endpoints: endpoints.map(readEndpoint) }
}

/** Canonical, without repeats. */
export function readAllowlist(allowlist: unknown): readonly string[] {
  return readHosts(parse(AllowlistChange, { allowlist }).allowlist)
}

function readHosts(allowlist: readonly string[]): readonly string[] {
  const entries = allowlist.map((text) => parseEntry(text))
  const faults = entries.flatMap((entry) => ('fault' in entry ? [entry.fault] : []))
  if (faults.length > 0) refuse('invalid', `the allowlist has what can be no entry: ${joined(faults)}`)
  return [...new Set(entries.flatMap((entry) => ('host' in entry ? [entry.host] : [])))]
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

const NO_SOURCE: ReadonlySet<AddressClass> = new Set(['unspecified', 'broadcast', 'multicast'])

function readAddress(text: string): string {
  const ip = canonicalAddress(text)
  // No packet comes from there: whoever writes it means everybody, and would have registered nobody.
  if (ip !== undefined && NO_SOURCE.has(classOf(ip))) {
    refuse('invalid', `ip must be the address of one source, not the ${classOf(ip)} address ${ip}`)
  }
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
