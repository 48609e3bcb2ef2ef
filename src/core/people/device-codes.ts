// Device authorization (RFC 8628): a program without a browser shows a short code, which a signed-in person types and allows.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { createToken, hashToken } from '../links/link-token.ts'
import { keyedHash } from '../secrets/derived-keys.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { Bytes, line, Sub, Timestamp } from '../values.ts'
import type { SessionHost } from './sessions.ts'
import { makeRoom, type UnusedRows } from './unused-rows.ts'
import { createUserCode } from './user-codes.ts'

export const DEVICE_CODE_TTL_MS = 10 * 60_000
export const POLL_INTERVAL_S = 5
/** Each can be requested by a stranger. */
export const DEVICE_CODES: UnusedRows = {
  table: 'device_codes',
  key: 'device_hash',
  unused: "status = 'pending'",
  label: 'device codes',
  max: 1000,
  networkMax: 100,
}
const KEPT_MS = 3_600_000

const STATES = ['pending', 'allowed', 'denied', 'used'] as const

const DeviceCode = z.object({
  device_hash: Bytes,
  user_code_hash: Bytes,
  client_id: line(2048),
  client_name: line(100),
  aud: line(256),
  scope: z.string(),
  status: z.enum(STATES),
  sub: Sub.optional(),
  created_at: Timestamp,
  expires_at: Timestamp,
  polled_at: Timestamp.optional(),
  interval_s: z.int(),
  /** Of the client that requested it. */
  network: z.string(),
})

export type DeviceCodeRow = z.output<typeof DeviceCode>

export const deviceCodes = new Table({
  name: 'device_codes',
  row: DeviceCode,
  key: 'device_hash',
  storage: [
    `create table device_codes (
       device_hash bytea primary key, user_code_hash bytea not null, client_id text not null, client_name text not null,
       aud text not null, scope text not null, status text not null, sub text, created_at text not null,
       expires_at text not null, polled_at text, interval_s integer not null)`,
    'create unique index device_codes_of_user_code on device_codes (user_code_hash)',
    'create index device_codes_expiry on device_codes (expires_at)',
    `alter table device_codes add column network text not null default ''`,
    'create index device_codes_of_network on device_codes (network, created_at)',
  ],
})

export const DEVICE_USER_CODE_LENGTH = 8
const USER_CODE_PURPOSE = 'svc device user code'

export function formatUserCode(code: string): string {
  return `${code.slice(0, 4)}-${code.slice(4)}`
}

function hashUserCode(keyring: Keyring, code: string): Uint8Array {
  return keyedHash(keyring, USER_CODE_PURPOSE, code)
}

export type DeviceRequest = Pick<DeviceCodeRow, 'client_id' | 'client_name' | 'aud' | 'scope' | 'network'>

/** Neither of the two codes is stored. */
export async function createDeviceCode(
  tx: Tx,
  host: SessionHost,
  request: DeviceRequest,
): Promise<{ deviceCode: string; userCode: string }> {
  const nowMs = host.clock.now()
  await execute(tx, 'delete from device_codes where expires_at < $1', [timestamp(nowMs - KEPT_MS)])
  await makeRoom(tx, DEVICE_CODES, request.network)
  const [deviceCode, userCode] = [createToken(host.random), createUserCode(host.random, DEVICE_USER_CODE_LENGTH)]
  await deviceCodes.insert(tx, {
    ...request,
    device_hash: hashToken(deviceCode),
    user_code_hash: hashUserCode(host.keyring, userCode),
    status: 'pending',
    created_at: timestamp(nowMs),
    expires_at: timestamp(nowMs + DEVICE_CODE_TTL_MS),
    interval_s: POLL_INTERVAL_S,
  })
  return { deviceCode, userCode }
}

/** The open request of a canonical user code. */
export async function findDeviceRequest(
  tx: Tx,
  { keyring, clock }: SessionHost,
  userCode: string,
): Promise<DeviceCodeRow | undefined> {
  const row = await deviceCodes.find(tx, { user_code_hash: hashUserCode(keyring, userCode) })
  return row?.status === 'pending' && clock.now() < Date.parse(row.expires_at) ? row : undefined
}

export async function decideDevice(
  tx: Tx,
  { device_hash }: DeviceCodeRow,
  decision: { readonly sub: string; readonly isAllowed: boolean },
): Promise<void> {
  const status = decision.isAllowed ? 'allowed' : 'denied'
  await deviceCodes.update(tx, { device_hash, status: 'pending' }, { status, sub: decision.sub })
}

export type PollVerdict =
  | {
      readonly outcome:
        | 'authorization_pending'
        | 'slow_down'
        | 'expired_token'
        | 'access_denied'
        | 'invalid_grant'
        | 'invalid_target'
    }
  | { readonly outcome: 'allowed'; readonly row: DeviceCodeRow & { readonly sub: string } }

export interface DevicePoll {
  readonly code: string
  readonly clientId: string
  /** The audience that the request names. */
  readonly aud?: string | undefined
}

/** Answers one poll, and uses up an allowed code. */
export async function pollDeviceCode(tx: Tx, poll: DevicePoll, nowMs: number): Promise<PollVerdict> {
  const { clientId, aud } = poll
  const device_hash = hashToken(poll.code)
  const row = await deviceCodes.find(tx, { device_hash })
  if (!row || row.client_id !== clientId || row.status === 'used') return { outcome: 'invalid_grant' }
  if (aud !== undefined && aud !== row.aud) return { outcome: 'invalid_target' }
  if (nowMs >= Date.parse(row.expires_at)) return { outcome: 'expired_token' }
  if (row.status === 'denied') return { outcome: 'access_denied' }
  const isEarly = row.polled_at !== undefined && nowMs - Date.parse(row.polled_at) < row.interval_s * 1000
  if (isEarly || row.status === 'pending') {
    const interval_s = isEarly ? row.interval_s + POLL_INTERVAL_S : row.interval_s
    await deviceCodes.update(tx, { device_hash }, { polled_at: timestamp(nowMs), interval_s })
    return { outcome: isEarly ? 'slow_down' : 'authorization_pending' }
  }
  await deviceCodes.update(tx, { device_hash }, { status: 'used' })
  return row.sub === undefined ? { outcome: 'invalid_grant' } : { outcome: 'allowed', row: { ...row, sub: row.sub } }
}
