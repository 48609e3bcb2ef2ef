// The adapters that have registered: processes of their own that speak to a platform, each at an address of its own.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { type Clock, type Random, timestamp } from '../../lib/clock.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { AdapterName, channelSecrets, mustOwnPlatform } from '../secrets/channel-secrets.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { Bytes, Timestamp, text } from '../values.ts'
import { platformOf } from './channel.ts'

export const JidPrefix = text((value) =>
  /^[a-z][a-z0-9_-]*:[\x21-\x7e]{0,200}$/.test(value) ? undefined : 'must look like platform: or platform:rooms/',
).describe('What the chats of an adapter begin with, such as telegram: or telegram:group/')

export const Capabilities = z
  .record(z.string().regex(/^[a-z][a-z0-9_]{0,63}$/), z.boolean())
  .refine((value) => Object.keys(value).length <= 100, 'has more than 100 entries')

export const ChannelRegistration = z.object({
  name: AdapterName,
  url: z.string().describe('Where its endpoints are, without a slash at the end'),
  jid_prefixes: z.array(JidPrefix),
  capabilities: Capabilities,
  token_hash: Bytes,
  token_sealed: Bytes.optional().describe('What it is greeted with; absent where no key seals'),
  health_fails: z.int(),
  checked_at: z.int().describe('When somebody last took it upon himself to ask, in milliseconds since 1970'),
  registered_at: Timestamp,
  seen_at: Timestamp.describe('When it last registered or was found healthy'),
  secret_name: AdapterName.optional().describe('The secret that it registered with; absent for the shared one'),
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
    // Rows from before may have platforms that are reserved now; adapters register again every few minutes.
    'delete from channel_registrations',
  ],
})

/** The signal that says that adapters came or went. */
export const CHANNELS_CHANGED = 'channels'

export interface Registering {
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
}

export type NewRegistration = Pick<
  ChannelRegistration,
  'name' | 'url' | 'jid_prefixes' | 'capabilities' | 'secret_name'
>

/**
 * Adds an adapter, or brings it up to date; its token. One that registers again keeps the token that it has, so that
 * what it is just sending is not refused.
 */
export async function registerChannel(tx: Tx, at: Registering, wanted: NewRegistration): Promise<string> {
  const { clock, random, keyring } = at
  const known = await channelRegistrations.find(tx, { name: wanted.name })
  await mustBeEntitled(tx, wanted, known)
  if (known && new URL(known.url).origin !== new URL(wanted.url).origin)
    refuse(
      'conflict',
      `the name ${wanted.name} is held by an adapter elsewhere`,
      'choose another name, or stop the other one: it is forgotten when it does not answer for 90 s',
    )
  const now = timestamp(clock.now())
  const fresh = { ...wanted, health_fails: 0, seen_at: now }
  const token = known && channelToken(keyring, known)
  if (token !== undefined) {
    await channelRegistrations.update(tx, { name: wanted.name }, fresh)
    return token
  }
  const made = Buffer.from(random.bytes(24)).toString('hex')
  const token_sealed = sealed(keyring, wanted.name, made)
  await channelRegistrations.upsert(tx, {
    ...fresh,
    token_hash: tokenHash(made),
    ...(token_sealed ? { token_sealed } : {}),
    checked_at: clock.now(),
    registered_at: known?.registered_at ?? now,
  })
  return made
}

/** A secret gives its own platforms and names alone, so that no adapter takes the place of another one. */
async function mustBeEntitled(
  tx: Tx,
  { name, secret_name, jid_prefixes }: NewRegistration,
  known: ChannelRegistration | undefined,
): Promise<void> {
  const isOfOther = known !== undefined && known.secret_name !== secret_name
  const isReserved = name !== secret_name && (await channelSecrets.find(tx, { name })) !== undefined
  if (isOfOther || isReserved)
    refuse('forbidden', `the name ${name} belongs to an adapter with another secret`, 'register under another name')
  for (const platform of new Set(jid_prefixes.map(platformOf))) await mustOwnPlatform(tx, secret_name, platform)
}

/** Ends every registration with this secret; the names of the adapters. */
export function deregisterSecret(tx: Tx, secret_name: string): Promise<string[]> {
  return deregisterWhere(tx, (row) => row.secret_name === secret_name)
}

/** Ends registrations of these platforms, and of this name, with any other secret; the names of the adapters. */
export function deregisterOthers(
  tx: Tx,
  { name, platforms }: { readonly name: string; readonly platforms: readonly string[] },
): Promise<string[]> {
  const isTaken = (prefix: string): boolean => platforms.includes(platformOf(prefix))
  return deregisterWhere(tx, (row) => row.secret_name !== name && (row.name === name || row.jid_prefixes.some(isTaken)))
}

async function deregisterWhere(tx: Tx, isEnded: (row: ChannelRegistration) => boolean): Promise<string[]> {
  const ended = (await channelRegistrations.list(tx)).filter(isEnded).map(({ name }) => name)
  for (const name of ended) await channelRegistrations.remove(tx, { name })
  return ended
}

export async function deregisterChannel(tx: Tx, name: string): Promise<boolean> {
  return (await channelRegistrations.remove(tx, { name })) > 0
}

/** What this adapter was given, where it can be opened. */
export function channelToken(
  keyring: Keyring,
  { name, token_sealed }: Pick<ChannelRegistration, 'name' | 'token_sealed'>,
): string | undefined {
  return token_sealed && unlessKeyless(() => keyring.open(token_sealed, contextOf(name)).toString())
}

export function findByToken(tx: Tx, token: string): Promise<ChannelRegistration | undefined> {
  return channelRegistrations.find(tx, { token_hash: tokenHash(token) })
}

/** Whether one of its prefixes begins this chat; the longest one that does. */
export function ownedPrefix({ jid_prefixes }: Pick<ChannelRegistration, 'jid_prefixes'>, jid: string): string {
  return jid_prefixes.filter((prefix) => jid.startsWith(prefix)).reduce((a, b) => (b.length > a.length ? b : a), '')
}

export interface HealthCheck {
  readonly now: number
  readonly everyMs: number
}

/** Those whose health is to be asked for now. Whoever is told one has it: another process asks for others. */
export async function claimHealthChecks(tx: Tx, { now, everyMs }: HealthCheck): Promise<ChannelRegistration[]> {
  return query(
    tx,
    channelRegistrations.decode,
    `update channel_registrations set checked_at = $1 where checked_at <= $2
     returning ${channelRegistrations.columns.join(', ')}`,
    [now, now - everyMs],
  )
}

/** An adapter that does not answer so often in a row is forgotten. */
export const HEALTH_FAILS_MAX = 3

/** Notes how one was found; whether it is forgotten. One that has registered since is taken at its word. */
export async function recordHealth(
  tx: Tx,
  { name, seen_at, health_fails }: ChannelRegistration,
  isHealthy: boolean,
  now: number,
): Promise<boolean> {
  const asked = { name, seen_at }
  if (isHealthy) {
    if (health_fails > 0) await channelRegistrations.update(tx, asked, { health_fails: 0, seen_at: timestamp(now) })
    return false
  }
  if (health_fails + 1 >= HEALTH_FAILS_MAX) return (await channelRegistrations.remove(tx, asked)) > 0
  await channelRegistrations.update(tx, asked, { health_fails: health_fails + 1 })
  return false
}

function tokenHash(token: string): Uint8Array {
  return createHash('sha256').update(token).digest()
}

function sealed(keyring: Keyring, name: string, token: string): Uint8Array | undefined {
  return unlessKeyless(() => keyring.seal(token, contextOf(name)))
}

/** Without a key, or with another one than before, an adapter is greeted with nothing and gets a new token. */
function unlessKeyless<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unavailable') return undefined
    throw error
  }
}

function contextOf(name: string): string {
  return `channel_token:${name}`
}
