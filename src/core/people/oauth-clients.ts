// OAuth clients: the built-in command line, and clients that registered themselves (RFC 7591). Clients with a metadata document
// have no row. All are public clients: they have no secret.
import { z } from 'zod'
import { type Clock, type Random, timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { line, Timestamp } from '../values.ts'
import { makeRoom, type UnusedRows } from './unused-rows.ts'

export const CODE_GRANT = 'authorization_code'
export const REFRESH_GRANT = 'refresh_token'
export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
export const GRANT_TYPES: readonly string[] = [CODE_GRANT, REFRESH_GRANT, DEVICE_GRANT]

/** Each registration can be made by a stranger. */
export const REGISTRATIONS: UnusedRows = {
  table: 'oauth_clients',
  key: 'client_id',
  unused: 'used_at is null',
  label: 'registered clients',
  max: 1000,
  networkMax: 100,
}
export const UNUSED_REGISTRATION_MS = 24 * 3_600_000
export const USED_REGISTRATION_MS = 90 * 24 * 3_600_000

const RegisteredClient = z.object({
  client_id: line(64),
  client_name: line(100),
  redirect_uris: z.array(line(1024)),
  grant_types: z.array(line(64)),
  created_at: Timestamp,
  used_at: Timestamp.optional(),
  expires_at: Timestamp,
  /** Of the client that registered. */
  network: z.string(),
})

export const oauthClients = new Table({
  name: 'oauth_clients',
  row: RegisteredClient,
  key: 'client_id',
  storage: [
    `create table oauth_clients (
       client_id text primary key, client_name text not null, redirect_uris text not null, grant_types text not null,
       created_at text not null, used_at text, expires_at text not null)`,
    'create index oauth_clients_expiry on oauth_clients (expires_at)',
    `alter table oauth_clients add column network text not null default ''`,
    'create index oauth_clients_of_network on oauth_clients (network, created_at)',
  ],
})

export type OauthClient = Pick<
  z.output<typeof RegisteredClient>,
  'client_id' | 'client_name' | 'redirect_uris' | 'grant_types'
>

export const CLI_CLIENT: OauthClient = {
  client_id: 'svc-cli',
  client_name: 'svc command line',
  redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback', 'http://[::1]/callback'],
  grant_types: [...GRANT_TYPES],
}

interface ClientHost {
  readonly clock: Clock
  readonly random: Random
}

/** Removes expired registrations first. */
export async function registerClient(
  tx: Tx,
  { clock, random }: ClientHost,
  client: Omit<OauthClient, 'client_id'> & { readonly network: string },
): Promise<z.output<typeof RegisteredClient>> {
  const nowMs = clock.now()
  await execute(tx, 'delete from oauth_clients where expires_at <= $1', [timestamp(nowMs)])
  await makeRoom(tx, REGISTRATIONS, client.network)
  const row = {
    client_id: `client-${uuidv7(clock, random)}`,
    ...client,
    created_at: timestamp(nowMs),
    expires_at: timestamp(nowMs + UNUSED_REGISTRATION_MS),
  }
  await oauthClients.insert(tx, row)
  return row
}

export async function findRegisteredClient(tx: Tx, id: string, nowMs: number): Promise<OauthClient | undefined> {
  const row = await oauthClients.find(tx, { client_id: id })
  return row && nowMs < Date.parse(row.expires_at) ? row : undefined
}

/** A registration that got a token is kept longer. Other clients have no row. */
export async function touchRegisteredClient(tx: Tx, client_id: string, nowMs: number): Promise<void> {
  const [used_at, expires_at] = [timestamp(nowMs), timestamp(nowMs + USED_REGISTRATION_MS)]
  await oauthClients.update(tx, { client_id }, { used_at, expires_at })
}
