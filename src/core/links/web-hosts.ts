// The host map: the folder whose published pages each host name shows.
import { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { frontStamp } from '../change-stamps.ts'
import { checkedText, Folder } from '../values.ts'

export function webHostFault(value: string): string | undefined {
  if (value === '') return 'must not be empty'
  if (value.length > 253) return 'is longer than 253 characters'
  const [, name = '', port] = /^([^:]*)(?::(\d{1,5}))?$/.exec(value) ?? []
  const isName = name.split('.').every((label) => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(label))
  if (isName && (port === undefined || (Number(port) >= 1 && Number(port) <= 65_535))) return undefined
  return 'must be a host name of a-z, 0-9, "." and "-", such as team.example.com, optionally with a port'
}

export const WebHost = z
  .object({
    hostname: checkedText(webHostFault).describe('Host name, such as team.example.com'),
    folder: Folder,
  })
  .meta({ id: 'WebHosts' })

export const webHosts = new Table({
  name: 'web_hosts',
  row: WebHost,
  key: 'hostname',
  storage: [
    `create table web_hosts (
       hostname text primary key, folder text not null references groups (folder) on delete cascade)`,
    'create index web_hosts_of on web_hosts (folder)',
    frontStamp.updateOnWrite('web_hosts'),
    // Without the foreign key, because a directory without a group can be bound too; a trigger replaces the cascade.
    'create table web_hosts_of_directories (hostname text primary key, folder text not null)',
    'insert into web_hosts_of_directories (hostname, folder) select hostname, folder from web_hosts',
    'drop table web_hosts',
    'alter table web_hosts_of_directories rename to web_hosts',
    'create index web_hosts_of on web_hosts (folder)',
    frontStamp.updateOnWrite('web_hosts'),
    (dialect) => dialect.onDelete('groups', 'web_hosts_end', 'delete from web_hosts where folder = old.folder'),
  ],
})

/** Binding the host of the instance would hide its links behind one folder's pages. */
export function mustNotBeInstanceHost({ webBase }: { readonly webBase: string }, hostname: string): void {
  const { host, hostname: name } = new URL(webBase)
  if (hostname === host || hostname === name)
    refuse('conflict', `${hostname} is the host of this instance (WEB_HOST)`, 'bind another host name')
}

/** Rebinds a host that is already bound. Returns the whole map. */
export async function bindWebHost(tx: Tx, hostname: string, folder: string): Promise<Record<string, string>> {
  const fault = webHostFault(hostname)
  if (fault) refuse('invalid', `hostname ${fault}`)
  await webHosts.upsert(tx, { hostname, folder })
  return hostMap(tx)
}

/** Returns the remaining map. */
export async function unbindWebHost(tx: Tx, hostname: string): Promise<Record<string, string>> {
  if ((await webHosts.remove(tx, { hostname })) === 0) refuse('not_found', `the host name ${hostname} is not bound`)
  return hostMap(tx)
}

async function hostMap(tx: Tx): Promise<Record<string, string>> {
  return Object.fromEntries((await webHosts.list(tx)).map((row) => [row.hostname, row.folder]))
}

/** The first host name in alphabetical order, so the result is stable. */
export async function webHostOf(tx: Tx, folder: string): Promise<string | undefined> {
  return (await webHosts.list(tx, { folder }))[0]?.hostname
}
