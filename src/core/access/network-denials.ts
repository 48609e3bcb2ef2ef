// Denied network requests of runs, so that an operator sees which rule is missing. Counted per folder, host, server name,
// port and reason.
import { z } from 'zod'
import { defineCounter } from '../../lib/log/metric-registry.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Folder, hostFault, isPlainValue, Timestamp } from '../values.ts'

/** The newest rows are kept. Agents choose the hosts, so their number must be bounded. */
export const DENIALS_PER_FOLDER = 200
/** Longer than any DNS name. */
const HOST_MAX = 256

export const DENIAL_REASONS = [
  'blocked-by-allowlist',
  'ip-literal',
  'destination-ip-prohibited',
  'sni-unreadable',
  'other',
] as const

export const NETWORK_DENIED = defineCounter(
  'svc_network_denials_total',
  'Requests of agents that no network rule allows',
  {
    reason: DENIAL_REASONS,
  },
)

const NetworkDenial = z.object({
  folder: Folder,
  host: z.string().describe('As the client sent it'),
  sni: z.string().describe('Denied server name of the TLS hello; empty if the host itself was denied'),
  port: z.int().describe('0 if the client named no port'),
  reason: z.string().describe('Why it was denied, such as blocked-by-allowlist'),
  count: z.int().describe('Number of denials'),
  first_at: Timestamp,
  last_at: Timestamp,
})
type NetworkDenial = z.output<typeof NetworkDenial>

export const networkDenials = new Table({
  name: 'network_denials',
  row: NetworkDenial,
  key: ['folder', 'host', 'sni', 'port', 'reason'],
  storage: [
    `create table network_denials (
       folder text not null references groups (folder) on delete cascade, host text not null, port integer not null,
       reason text not null, count bigint not null, first_at text not null, last_at text not null,
       primary key (folder, host, port, reason))`,
    'create index network_denials_newest on network_denials (last_at)',
    // A primary key cannot be changed in place.
    `create table network_denials_by_name (
       folder text not null references groups (folder) on delete cascade, host text not null, sni text not null,
       port integer not null, reason text not null, count bigint not null, first_at text not null, last_at text not null,
       primary key (folder, host, sni, port, reason))`,
    `insert into network_denials_by_name (folder, host, sni, port, reason, count, first_at, last_at)
       select folder, host, '', port, reason, count, first_at, last_at from network_denials`,
    'drop table network_denials',
    'alter table network_denials_by_name rename to network_denials',
    'create index network_denials_newest on network_denials (last_at)',
  ],
})

export interface DenialReport {
  readonly folder: string
  readonly host: string
  /** Server name of the TLS hello, if that was denied rather than the host. */
  readonly sni?: string | undefined
  readonly port?: number | undefined
  readonly reason: string
  readonly count: number
  /** In the format of `timestamp`, so times compare as text. */
  readonly at: string
}

// Selects from groups to skip folders that were removed meanwhile; otherwise the whole batch would fail.
const ADD = `insert into network_denials (folder, host, sni, port, reason, count, first_at, last_at)
  select folder, cast($2 as text), cast($3 as text), cast($4 as integer), cast($5 as text), cast($6 as bigint), cast($7 as text),
         cast($7 as text)
    from groups where folder = $1
  on conflict (folder, host, sni, port, reason) do update set
    count = network_denials.count + excluded.count,
    first_at = case when excluded.first_at < network_denials.first_at then excluded.first_at else network_denials.first_at end,
    last_at = case when excluded.last_at > network_denials.last_at then excluded.last_at else network_denials.last_at end`

const PRUNE = `delete from network_denials where folder = $1 and (host, sni, port, reason) not in (
  select host, sni, port, reason from network_denials where folder = $1
    order by last_at desc, host, sni, port, reason limit ${DENIALS_PER_FOLDER})`

export async function recordDenials(tx: Tx, denials: readonly DenialReport[]): Promise<void> {
  for (const { folder, host, sni = '', port = 0, reason, count, at } of denials)
    await execute(tx, ADD, [folder, storedHost(host), storedHost(sni), port, reason, count, at])
  for (const folder of new Set(denials.map((denial) => denial.folder))) await execute(tx, PRUNE, [folder])
}

/** PostgreSQL cannot store NUL, and terminals must not receive other control characters. */
function storedHost(host: string): string {
  const cut = host.slice(0, HOST_MAX)
  return isPlainValue(cut) ? cut : cut.replace(/[\u0000-\u001f\u007f-\u009f]/g, '\ufffd')
}

export function deniedHost({ host, sni }: Pick<NetworkDenial, 'host' | 'sni'>): string {
  return sni || host
}

/** Why no rule can allow it; undefined if a rule can. */
export function unallowableReason(denial: Pick<NetworkDenial, 'host' | 'sni' | 'reason'>): string | undefined {
  const { reason, sni } = denial
  if (reason === 'destination-ip-prohibited') return 'no rule helps: its address is private (NETWORK_DENY_PRIVATE)'
  if (reason === 'sni-unreadable' && sni === '') return 'no rule helps: its TLS hello cannot be read'
  const fault = hostFault(deniedHost(denial))
  if (reason === 'ip-literal' || /IP address/.test(fault ?? '')) return 'no rule helps: an address, not a host name'
  return fault === undefined ? undefined : 'no rule helps: not a host name'
}
