// What the DNS answered about a name, of both families, and the addresses that come of it.
import type { RecordWithTtl } from 'node:dns'
import { isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { canonicalAddress } from '../address-text.ts'

export type Resolved =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[]; readonly ttlMs: number }
  | { readonly kind: 'failed'; readonly code: 'dns-error' | 'dns-timeout' | 'out-of-files'; readonly rcode?: string }

const MOST_ADDRESSES = 16
export const LEAST_TTL_MS = 1_000
const MOST_TTL_MS = 60_000
/** For the family that lags: some servers never answer a question about IPv6 (RFC 4074). */
const OTHER_FAMILY_MS = 100

type Failure = Extract<Resolved, { kind: 'failed' }>
export type Answer = { readonly kind: 'records'; readonly records: readonly RecordWithTtl[] } | Failure
type Answers = { four: Answer; six: Answer }

const TIMED_OUT: Failure = { kind: 'failed', code: 'dns-timeout' }
/** It says nothing about the name. */
export const OUT_OF_FILES: Failure = { kind: 'failed', code: 'out-of-files' }
const NO_DATA: Failure = { kind: 'failed', code: 'dns-error', rcode: 'NODATA' }

/** `hadFiles` says whether a file could be opened when it was asked. */
export async function answerOf(asking: Promise<RecordWithTtl[]>, hadFiles: boolean): Promise<Answer> {
  try {
    const records = await asking
    // None is what is left of a chain of aliases that leads nowhere, or back to itself.
    return records.length === 0 ? NO_DATA : { kind: 'records', records }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'EUNKNOWN'
    if (code === 'ETIMEOUT') return TIMED_OUT
    // That it could ask no server is all that c-ares says where it cannot open a socket.
    if (code === 'ECONNREFUSED' && !hadFiles) return OUT_OF_FILES
    return { kind: 'failed', code: 'dns-error', rcode: code === 'ENOTFOUND' ? 'NXDOMAIN' : code.replace(/^E/, '') }
  }
}

/** With what has come when both have answered, when one has and the other lags, or at the deadline. */
export function gather(four: Promise<Answer>, six: Promise<Answer>, timeoutMs: number): Promise<Resolved> {
  return new Promise((settle) => {
    const come: Answers = { four: TIMED_OUT, six: TIMED_OUT }
    let awaited = 2
    const finish = (): void => {
      for (const timer of timers) clearTimeout(timer)
      settle(join(come))
    }
    const timers = [setTimeout(finish, timeoutMs)]
    const take = (answer: Partial<Answers>, { kind }: Answer): void => {
      Object.assign(come, answer)
      awaited--
      if (awaited === 0) finish()
      else if (kind === 'records') timers.push(setTimeout(finish, OTHER_FAMILY_MS))
    }
    void four.then((answer) => take({ four: answer }, answer))
    void six.then((answer) => take({ six: answer }, answer))
  })
}

function join({ four, six }: Answers): Resolved {
  // An empty answer says less than any other failure.
  if (four.kind === 'failed' && six.kind === 'failed') return four.rcode === NO_DATA.rcode ? six : four
  const records = [...recordsOf(four), ...recordsOf(six)]
  const ttlMs = 1_000 * Math.min(...records.map(({ ttl }) => ttl))
  // Half an answer is asked for again soon: the missing half may be the one that this machine can reach.
  const isWhole = four !== TIMED_OUT && six !== TIMED_OUT
  const addresses = interleave(recordsOf(four), recordsOf(six))
  return addressesOf(addresses, isWhole ? Math.min(Math.max(ttlMs, LEAST_TTL_MS), MOST_TTL_MS) : LEAST_TTL_MS)
}

function recordsOf(answer: Answer): readonly RecordWithTtl[] {
  return answer.kind === 'records' ? answer.records : []
}

/** In turns (RFC 8305), so that a family that does not work costs one try and not all of them. */
function interleave(four: readonly RecordWithTtl[], six: readonly RecordWithTtl[]): string[] {
  const [first, second] = four.length > 0 && six.length > 0 && hasGlobalIpv6() ? [six, four] : [four, six]
  const turns = Math.max(first.length, second.length)
  return Array.from({ length: turns }, (_, turn) => [first[turn], second[turn]])
    .flat()
    .flatMap((record) => (record ? [record.address] : []))
}

/** Without an address that the world can answer to, IPv6 is the family that does not work. */
function hasGlobalIpv6(): boolean {
  return Object.values(networkInterfaces()).some((addresses) =>
    addresses?.some(({ address }) => /^[23]/.test(address) && isIPv6(address)),
  )
}

export function addressesOf(spelled: readonly string[], ttlMs: number): Resolved {
  const canonical = new Set(spelled.flatMap((address) => canonicalAddress(address) ?? []))
  return { kind: 'addresses', addresses: [...canonical].slice(0, MOST_ADDRESSES), ttlMs }
}
