// Health check of an adapter. The body is foreign text: its size and every member are limited.
import { z } from 'zod'
import { ConnectionState, type HealthCheck, type HealthReport } from '../../core/delivery/channel-registrations.ts'
import { Timestamp } from '../../core/values.ts'
import { timestamp } from '../../lib/clock.ts'
import { replaceHidden } from '../../lib/text/hidden-characters.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import { type AdapterResponse, sendAdapterRequest } from '../adapter-request.ts'
import type { AddressPolicy } from '../address-policy.ts'

const RESPONSE_TIMEOUT_MS = 10_000
const BODY_MAX_BYTES = 16 * 1024
const VALUES_MAX = 100

const DETAIL_MAX = 300
/** The end of the year 9999, in seconds: later times have another form. */
const SECONDS_MAX = 253_402_300_799

const absentIfNull = <S extends z.ZodType>(schema: S) =>
  z.preprocess((value) => (value === null ? undefined : value), schema.optional())

/** Other members are ignored. A member of another type makes it no report, because older adapters answer anything. */
const ReportBody = z.object({
  status: ConnectionState,
  detail: absentIfNull(z.string().transform(toDetail)),
  since: absentIfNull(
    z.union([
      Timestamp.max(40).transform((text) => timestamp(Date.parse(text))),
      z
        .number()
        .min(0)
        .max(SECONDS_MAX)
        .transform((seconds) => timestamp(Math.round(seconds * 1000))),
    ]),
  ),
  qr: absentIfNull(z.string().regex(/^[\x20-\x7e]{1,2000}$/)),
})

export interface ProbeOptions {
  readonly url: string
  readonly addresses: AddressPolicy
  readonly stop: AbortSignal
  /** Of the adapter; undefined if another program may have its address. */
  readonly token?: string | undefined
  /** For the whole request; by default, only the response has a timeout. */
  readonly timeoutMs?: number | undefined
}

export async function probeHealth({ url, addresses, stop, token, timeoutMs }: ProbeOptions): Promise<HealthCheck> {
  try {
    const response = await sendAdapterRequest({
      method: 'GET',
      url: new URL(`${url}/health`),
      headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
      timeoutMs: RESPONSE_TIMEOUT_MS,
      bodyMaxBytes: BODY_MAX_BYTES,
      addresses,
      // A signal per request, because many concurrent requests would exceed the listener limit of one.
      signal: AbortSignal.any([stop, ...(timeoutMs === undefined ? [] : [AbortSignal.timeout(timeoutMs)])]),
    })
    return readHealth(response)
  } catch {
    return { isAlive: false }
  }
}

/** An adapter that names its state is alive, whatever the status; only `ok` contradicts an error status. */
export function readHealth({ status, text }: Pick<AdapterResponse, 'status' | 'text'>): HealthCheck {
  const isSuccess = status >= 200 && status < 300
  const report = readReport(text)
  if (report) return report.state === 'ok' && !isSuccess ? { isAlive: false } : { isAlive: true, report }
  return { isAlive: isSuccess || /"status"\s*:\s*"stale"/.test(text) }
}

function readReport(text: string): HealthReport | undefined {
  const { data } = ReportBody.safeParse(tryParseJson(text, VALUES_MAX))
  if (!data) return undefined
  const { status: state, detail, since, qr } = data
  return { state, detail: detail === '' ? undefined : detail, since, qr }
}

/** One line; a longer text is cut. */
function toDetail(text: string): string {
  return [...replaceHidden(text, ' ').trim()].slice(0, DETAIL_MAX).join('')
}
