// Validates registrations and converts them to canonical form, for the admin listener, the state file and programs that embed
// the proxy.
import { z } from 'zod'
import { breadthWarning } from '../../lib/http/public-suffix.ts'
import { refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { type AddressClass, addressClassOf } from '../address/address-class.ts'
import { parseHost } from '../address/host.ts'
import { canonicalAddress } from '../address/ip-address.ts'
import { parseAllowlistEntry } from './allowlist-entry.ts'
import type { AllowedEndpoint, RegisteredSource } from './policy.ts'

/** Per entry; every change rewrites the whole list. */
export const HOSTS_MAX = 10_000
const ID_MAX = 128
const SHOWN_MAX = 80
const ENDPOINTS_MAX = 100
/** Limit of reported invalid hosts. */
const REPORTED_MAX = 20

const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}]*$/u

const Id = z
  .string()
  .refine((id) => id.trim() !== '', { error: 'must not be empty', abort: true })
  // Counted in grapheme clusters.
  .refine((id) => id.length <= 2 * ID_MAX && [...id].length <= ID_MAX, {
    error: `is longer than ${ID_MAX} characters`,
    abort: true,
  })
  .refine((id) => PRINTABLE.test(id), { error: 'must be of printable characters' })

// Limit the count before checking items: one error per item could make a response of half a million errors.
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

/** Rejects the whole registration, with an error per invalid host. */
export function readRegistration(raw: unknown): RegisteredSource {
  const { ip, id, allowlist } = parse(Registration, raw)
  const hosts = readHosts(allowlist)
  return { ip: readAddress(ip), id, allowlist: hosts }
}

/** Warnings about hosts that allow more than they seem to. */
export function allowlistWarnings(allowlist: readonly string[]): readonly string[] {
  const warnings = allowlist.flatMap((host) => breadthWarning(host) ?? [])
  const more = warnings.length - REPORTED_MAX
  return [...warnings.slice(0, REPORTED_MAX), ...(more > 0 ? [`so do ${more} more`] : [])]
}

export interface SocketRegistration extends Pick<RegisteredSource, 'id' | 'allowlist'> {
  /** With canonical hosts. */
  readonly endpoints: readonly AllowedEndpoint[]
}

/** A source without an address, identified by its listener. */
export function readSocketSource(raw: unknown): SocketRegistration {
  const { id, allowlist, endpoints = [] } = parse(SocketSourceInput, raw)
  return { id, allowlist: readHosts(allowlist), endpoints: endpoints.map(readEndpoint) }
}

/** Canonical, without duplicates. */
export function readAllowlist(allowlist: unknown): readonly string[] {
  return readHosts(parse(AllowlistChange, { allowlist }).allowlist)
}

function readHosts(allowlist: readonly string[]): readonly string[] {
  const entries = allowlist.map((text) => parseAllowlistEntry(text))
  const faults = entries.flatMap((entry) => ('fault' in entry ? [entry.fault] : []))
  if (faults.length > 0) refuse('invalid', `the allowlist has invalid entries: ${joined(faults)}`)
  return [...new Set(entries.flatMap((entry) => ('host' in entry ? [entry.host] : [])))]
}

function readEndpoint({ host: text, port }: AllowedEndpoint): AllowedEndpoint {
  const host = parseHost(text)
  if (host) return { host: host.text, port }
  const shown = JSON.stringify(text.slice(0, SHOWN_MAX))
  return refuse('invalid', `the host of an endpoint must be a host name or an IP address, not ${shown}`)
}

/** The address of the source to remove. */
export function readUnregistration(raw: unknown): string {
  return readAddress(parse(Removal, raw).ip)
}

const NO_SOURCE: ReadonlySet<AddressClass> = new Set(['unspecified', 'broadcast', 'multicast'])

function readAddress(text: string): string {
  const ip = canonicalAddress(text)
  // No packet comes from there: a user who writes it means everyone but would have registered nothing.
  if (ip !== undefined && NO_SOURCE.has(addressClassOf(ip))) {
    refuse('invalid', `ip must be the address of one source, not the ${addressClassOf(ip)} address ${ip}`)
  }
  // The proxy sees no zone: two machines on two links may have the same address and would share an entry.
  if (ip?.includes(':') && addressClassOf(ip) === 'link-local')
    refuse(
      'invalid',
      `ip must be the address of one source, not a link-local IPv6 address, which is not unique across links: ${ip}`,
    )
  if (ip !== undefined) return ip
  const shown = JSON.stringify(text.slice(0, SHOWN_MAX))
  return refuse('invalid', `ip must be one IPv4 or IPv6 address, without zone, mask or leading zeros, not ${shown}`)
}

function joined(faults: readonly string[]): string {
  const more = faults.length > REPORTED_MAX ? [`And ${faults.length - REPORTED_MAX} more.`] : []
  return [...faults.slice(0, REPORTED_MAX), ...more].join(' ')
}
