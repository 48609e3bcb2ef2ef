// Combines the DNS responses for both address families into a list of addresses.
import type { RecordWithTtl } from 'node:dns'
import { isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { guard } from '../../lib/fault-boundary.ts'
import { canonicalAddress } from '../address/ip-address.ts'

export type DnsResult =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[]; readonly ttlMs: number }
  | { readonly kind: 'failed'; readonly code: 'dns-error' | 'dns-timeout' | 'out-of-files'; readonly rcode?: string }

const MAX_ADDRESSES = 16
export const MIN_TTL_MS = 1_000
const MAX_TTL_MS = 60_000
/** Grace period for the slower family: some servers never answer AAAA queries (RFC 4074). */
const OTHER_FAMILY_MS = 100

type Failure = Extract<DnsResult, { kind: 'failed' }>
export type DnsFamilyResult = { readonly kind: 'records'; readonly records: readonly RecordWithTtl[] } | Failure
type FamilyResults = { four: DnsFamilyResult; six: DnsFamilyResult }

const TIMED_OUT: Failure = { kind: 'failed', code: 'dns-timeout' }
/** Says nothing about the name, so it is not cached. */
const OUT_OF_FILES: Failure = { kind: 'failed', code: 'out-of-files' }
const NO_DATA: Failure = { kind: 'failed', code: 'dns-error', rcode: 'NODATA' }

/** `hadFiles`: whether a file could be opened when the query was sent. */
export async function readFamilyResult(query: Promise<RecordWithTtl[]>, hadFiles: boolean): Promise<DnsFamilyResult> {
  try {
    const records = await query
    // No records remain of a CNAME chain that ends nowhere or loops.
    return records.length === 0 ? NO_DATA : { kind: 'records', records }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'EUNKNOWN'
    if (code === 'ETIMEOUT') return TIMED_OUT
    // c-ares reports ECONNREFUSED also when it cannot open a socket.
    if (code === 'ECONNREFUSED' && !hadFiles) return OUT_OF_FILES
    return { kind: 'failed', code: 'dns-error', rcode: code === 'ENOTFOUND' ? 'NXDOMAIN' : code.replace(/^E/, '') }
  }
}

/** Resolves when both families have answered, after the grace period of the slower one, or at the deadline. */
export function combineFamilies(
  four: Promise<DnsFamilyResult>,
  six: Promise<DnsFamilyResult>,
  timeoutMs: number,
): Promise<DnsResult> {
  return new Promise((settle, reject) => {
    const received: FamilyResults = { four: TIMED_OUT, six: TIMED_OUT }
    let awaited = 2
    const finish = guard(reject, (): void => {
      for (const timer of timers) clearTimeout(timer)
      settle(join(received))
    })
    const timers = [setTimeout(finish, timeoutMs)]
    const take = (answer: Partial<FamilyResults>, { kind }: DnsFamilyResult): void => {
      Object.assign(received, answer)
      awaited--
      if (awaited === 0) finish()
      else if (kind === 'records') timers.push(setTimeout(finish, OTHER_FAMILY_MS))
    }
    four.then((answer) => take({ four: answer }, answer)).catch(reject)
    six.then((answer) => take({ six: answer }, answer)).catch(reject)
  })
}

function join({ four, six }: FamilyResults): DnsResult {
  // NODATA says less than any other failure.
  if (four.kind === 'failed' && six.kind === 'failed') return four.rcode === NO_DATA.rcode ? six : four
  const records = [...recordsOf(four), ...recordsOf(six)]
  const ttlMs = 1_000 * Math.min(...records.map(({ ttl }) => ttl))
  // Half a result expires soon: the missing family may be the one that this machine can reach.
  const isWhole = four !== TIMED_OUT && six !== TIMED_OUT
  const addresses = interleave(recordsOf(four), recordsOf(six))
  return addressesOf(addresses, isWhole ? Math.min(Math.max(ttlMs, MIN_TTL_MS), MAX_TTL_MS) : MIN_TTL_MS)
}

function recordsOf(answer: DnsFamilyResult): readonly RecordWithTtl[] {
  return answer.kind === 'records' ? answer.records : []
}

/** Alternating (RFC 8305), so a broken family costs one attempt, not all. */
function interleave(four: readonly RecordWithTtl[], six: readonly RecordWithTtl[]): string[] {
  const [first, second] = four.length > 0 && six.length > 0 && hasGlobalIpv6() ? [six, four] : [four, six]
  const turns = Math.max(first.length, second.length)
  return Array.from({ length: turns }, (_, turn) => [first[turn], second[turn]])
    .flat()
    .flatMap((record) => (record ? [record.address] : []))
}

/** Without a global IPv6 address, IPv6 does not work. */
function hasGlobalIpv6(): boolean {
  return Object.values(networkInterfaces()).some((addresses) =>
    addresses?.some(({ address }) => /^[23]/.test(address) && isIPv6(address)),
  )
}

export function addressesOf(texts: readonly string[], ttlMs: number): DnsResult {
  const canonical = new Set(texts.flatMap((address) => canonicalAddress(address) ?? []))
  return { kind: 'addresses', addresses: [...canonical].slice(0, MAX_ADDRESSES), ttlMs }
}
