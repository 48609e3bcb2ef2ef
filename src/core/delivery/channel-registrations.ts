// Registered adapters: external processes that connect a platform, each with its own base URL.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { type Clock, type Random, timestamp } from '../../lib/clock.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { AdapterName, channelSecrets, mustOwnPlatform } from '../secrets/channel-secrets.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { Bytes, checkedText, Timestamp } from '../values.ts'
import { platformOf } from './channel.ts'

export const JidPrefix = checkedText((value) =>
  /^[a-z][a-z0-9_-]*:[\x21-\x7e]{0,200}$/.test(value) ? undefined : 'must look like platform: or platform:rooms/',
).describe("Prefix of the JIDs of an adapter's chats, such as telegram: or telegram:group/")

export const ChannelCapabilities = z
  .record(z.string().regex(/^[a-z][a-z0-9_]{0,63}$/), z.boolean())
  .refine((value) => Object.keys(value).length <= 100, 'has more than 100 entries')

export const ConnectionState = z
  .enum(['ok', 'connecting', 'stale', 'login_needed', 'refused'])
  .describe(
    'stale: no message for a while; login_needed: a person must sign in; refused: the platform refuses the account',
  )
export type ConnectionState = z.output<typeof ConnectionState>

/** What an adapter reports of its connection to the platform, in the body of its health check. */
export interface HealthReport {
  readonly state: ConnectionState
  /** One line without control characters. */
  readonly detail?: string | undefined
  /** RFC 3339. */
  readonly since?: string | undefined
  /** The content of a QR code that signs in to the platform: a secret. */
  readonly qr?: string | undefined
}

export interface HealthCheck {
  /** Whether the process answers. It is removed after failed checks, but not because its platform refuses it. */
  readonly isAlive: boolean
  readonly report?: HealthReport | undefined
}

export const ChannelRegistration = z.object({
  name: AdapterName,
  url: z.string().describe('Base URL of its endpoints, without a trailing slash'),
  jid_prefixes: z.array(JidPrefix),
  capabilities: ChannelCapabilities,
  token_hash: Bytes,
  token_sealed: Bytes.optional().describe('The encrypted token; absent without SECRETS_KEY'),
  health_fails: z.int(),
  checked_at: z.int().describe('When a daemon last claimed its health check, in milliseconds since 1970'),
  registered_at: Timestamp,
  seen_at: Timestamp.describe('When it last registered or recovered'),
  secret_name: AdapterName.optional().describe('The secret that it registered with; absent for the shared secret'),
  state: ConnectionState.optional().describe('Its connection, as it last reported; absent if it reports none'),
  detail: z.string().optional(),
  since: z.string().optional().describe('Since when, as the adapter says'),
  reported_at: Timestamp.optional().describe('When it last reported its state'),
  qr_sealed: Bytes.optional().describe('The encrypted QR code of a sign-in; absent without SECRETS_KEY'),
})
export type ChannelRegistration = z.output<typeof ChannelRegistration>

export const channelRegistrations = new Table({
  name: 'channel_registrations',
  row: ChannelRegistration,
  key: 'name',
  storage: [
    `create table channel_registrations (
       name text primary key, url text not null, jid_prefixes text not null, capabilities text not null,
       token_hash bytea not null, token_sealed bytea, health_fails integer not null, checked_at bigint not null,
       registered_at text not null, seen_at text not null)`,
    'create unique index channel_registrations_of_token on channel_registrations (token_hash)',
    'alter table channel_registrations add column secret_name text',
    // Older rows may claim platforms that are reserved now; adapters register again every few minutes.
    'delete from channel_registrations',
    () => [
      'alter table channel_registrations add column state text',
      'alter table channel_registrations add column detail text',
      'alter table channel_registrations add column since text',
      'alter table channel_registrations add column reported_at text',
      'alter table channel_registrations add column qr_sealed bytea',
    ],
  ],
})

/** Signal sent when adapters register or deregister. */
export const CHANNELS_CHANGED = 'channels'

interface RegistrationContext {
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
}

type NewRegistration = Pick<ChannelRegistration, 'name' | 'url' | 'jid_prefixes' | 'capabilities' | 'secret_name'>

/**
 * Adds or updates an adapter and returns its token. An adapter that registers again keeps its token, so its requests in
 * flight stay valid. `silent` is a registration whose address did not answer a moment ago: one from another address
 * replaces it, with a new token, so that the old process has no access if it still runs.
 */
export async function registerChannel(
  tx: Tx,
  { clock, random, keyring }: RegistrationContext,
  registration: NewRegistration,
  silent?: ChannelRegistration | undefined,
): Promise<string> {
  const { name, url } = registration
  const existing = await channelRegistrations.find(tx, { name })
  await mustBeEntitled(tx, registration, existing)
  const isMoved = existing !== undefined && isElsewhere(existing, url)
  if (isMoved && !isUnchanged(existing, silent))
    refuse(
      'conflict',
      `the name ${name} is in use by an adapter at another address`,
      'choose another name, or stop the other adapter: the name is free as soon as it does not answer',
    )
  const now = timestamp(clock.now())
  const row = { ...registration, health_fails: 0, seen_at: now }
  const existingToken = existing && !isMoved ? channelToken(keyring, existing) : undefined
  if (existingToken !== undefined) {
    await channelRegistrations.update(tx, { name }, row)
    return existingToken
  }
  const token = Buffer.from(random.bytes(24)).toString('hex')
  const token_sealed = unlessKeyless(() => keyring.seal(token, sealContext(name)))
  await channelRegistrations.upsert(tx, {
    ...row,
    token_hash: tokenHash(token),
    ...(token_sealed ? { token_sealed } : {}),
    checked_at: clock.now(),
    registered_at: existing?.registered_at ?? now,
  })
  return token
}

/** Whether the adapter is registered at another scheme, host or port. */
export function isElsewhere(existing: Pick<ChannelRegistration, 'url'>, url: string): boolean {
  return new URL(existing.url).origin !== new URL(url).origin
}

/** Whether the row is still the one that was checked: it was neither registered again nor recovered meanwhile. */
function isUnchanged(existing: ChannelRegistration, checked: ChannelRegistration | undefined): boolean {
  return (
    checked !== undefined &&
    existing.url === checked.url &&
    existing.seen_at === checked.seen_at &&
    Buffer.compare(existing.token_hash, checked.token_hash) === 0
  )
}

/** A secret is valid only for its own platforms and names, so no adapter can replace another. */
async function mustBeEntitled(
  tx: Tx,
  { name, secret_name, jid_prefixes }: NewRegistration,
  existing: ChannelRegistration | undefined,
): Promise<void> {
  const isOfOther = existing !== undefined && existing.secret_name !== secret_name
  const isReserved = name !== secret_name && (await channelSecrets.find(tx, { name })) !== undefined
  if (isOfOther || isReserved)
    refuse('forbidden', `the name ${name} belongs to an adapter with another secret`, 'register under another name')
  for (const platform of new Set(jid_prefixes.map(platformOf))) await mustOwnPlatform(tx, secret_name, platform)
}

/** Removes every registration with this secret and returns the adapters' names. */
export function deregisterSecret(tx: Tx, secret_name: string): Promise<string[]> {
  return deregisterWhere(tx, (row) => row.secret_name === secret_name)
}

/** Removes other secrets' registrations of these platforms or this name and returns the adapters' names. */
export function deregisterOthers(
  tx: Tx,
  { name, platforms }: { readonly name: string; readonly platforms: readonly string[] },
): Promise<string[]> {
  const isTaken = (prefix: string): boolean => platforms.includes(platformOf(prefix))
  return deregisterWhere(tx, (row) => row.secret_name !== name && (row.name === name || row.jid_prefixes.some(isTaken)))
}

async function deregisterWhere(tx: Tx, matches: (row: ChannelRegistration) => boolean): Promise<string[]> {
  const names = (await channelRegistrations.list(tx)).filter(matches).map(({ name }) => name)
  for (const name of names) await channelRegistrations.remove(tx, { name })
  return names
}

export async function deregisterChannel(tx: Tx, name: string): Promise<boolean> {
  return (await channelRegistrations.remove(tx, { name })) > 0
}

/** The adapter's token; undefined if it cannot be decrypted. */
export function channelToken(
  keyring: Keyring,
  { name, token_sealed }: Pick<ChannelRegistration, 'name' | 'token_sealed'>,
): string | undefined {
  return token_sealed && unlessKeyless(() => keyring.open(token_sealed, sealContext(name)).toString())
}

/** The content of the QR code that it reports; undefined if it cannot be decrypted. */
export function channelQr(
  keyring: Keyring,
  { name, qr_sealed }: Pick<ChannelRegistration, 'name' | 'qr_sealed'>,
): string | undefined {
  return qr_sealed && unlessKeyless(() => keyring.open(qr_sealed, qrContext(name)).toString())
}

export function findByToken(tx: Tx, token: string): Promise<ChannelRegistration | undefined> {
  return channelRegistrations.find(tx, { token_hash: tokenHash(token) })
}

/** The adapter's longest prefix that matches this chat; '' if none does. */
export function ownedPrefix({ jid_prefixes }: Pick<ChannelRegistration, 'jid_prefixes'>, jid: string): string {
  return jid_prefixes.filter((prefix) => jid.startsWith(prefix)).reduce((a, b) => (b.length > a.length ? b : a), '')
}

/** Claims the adapters whose health check is due, so that no other process checks them too. */
export function claimHealthChecks(
  tx: Tx,
  { now, everyMs }: { readonly now: number; readonly everyMs: number },
): Promise<ChannelRegistration[]> {
  return query(
    tx,
    channelRegistrations.decode,
    `update channel_registrations set checked_at = $1
     where checked_at <= $2 or (qr_sealed is not null and checked_at <= $3)
     returning ${channelRegistrations.columns.join(', ')}`,
    [now, now - everyMs, now - Math.min(everyMs, QR_CHECK_EVERY_MS)],
  )
}

/** How often routd checks each adapter. */
export const HEALTH_CHECK_EVERY_MS = 30_000
/** How often while it reports a QR code: platforms replace it several times a minute. */
const QR_CHECK_EVERY_MS = 5000

export const AdapterHealth = z
  .enum(['healthy', 'failing', 'unknown'])
  .describe('unknown: no process has checked it lately, because routd does not run')
export type AdapterHealth = z.output<typeof AdapterHealth>

/** The health in the store, which the process of routd writes. */
export function adapterHealth(
  { health_fails, checked_at }: Pick<ChannelRegistration, 'health_fails' | 'checked_at'>,
  now: number,
): AdapterHealth {
  if (now - checked_at > 3 * HEALTH_CHECK_EVERY_MS) return 'unknown'
  return health_fails === 0 ? 'healthy' : 'failing'
}

/** An adapter is removed after this many failed checks in a row. */
export const HEALTH_FAILS_MAX = 3

/** Records the result of a health check; true if it removed the adapter. Does nothing if the adapter has registered since. */
export async function recordHealth(
  tx: Tx,
  { clock, keyring }: Pick<RegistrationContext, 'clock' | 'keyring'>,
  { name, seen_at, token_hash, health_fails, state }: ChannelRegistration,
  { isAlive, report }: HealthCheck,
): Promise<boolean> {
  const checked = { name, seen_at, token_hash }
  if (isAlive) {
    const now = timestamp(clock.now())
    const recovered = health_fails > 0 ? { health_fails: 0, seen_at: now } : {}
    const reported = report || state ? reportColumns(keyring, name, report, now) : {}
    await channelRegistrations.update(tx, checked, { ...recovered, ...reported })
    return false
  }
  if (health_fails + 1 >= HEALTH_FAILS_MAX) return (await channelRegistrations.remove(tx, checked)) > 0
  await channelRegistrations.update(tx, checked, { health_fails: health_fails + 1, qr_sealed: undefined })
  return false
}

/** Without a report, the adapter no longer reports its state. */
function reportColumns(keyring: Keyring, name: string, report: HealthReport | undefined, now: string) {
  const { state, detail, since, qr } = report ?? {}
  const qr_sealed = qr === undefined ? undefined : unlessKeyless(() => keyring.seal(qr, qrContext(name)))
  return { state, detail, since, reported_at: report ? now : undefined, qr_sealed }
}

function tokenHash(token: string): Uint8Array {
  return createHash('sha256').update(token).digest()
}

/** Undefined if SECRETS_KEY is missing or has changed: the adapter then gets a new token. */
function unlessKeyless<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unavailable') return undefined
    throw error
  }
}

function sealContext(name: string): string {
  return `channel_token:${name}`
}

function qrContext(name: string): string {
  return `channel_qr:${name}`
}
