// Hosts that a folder's agent may reach: the default hosts, its own rules and those of its ancestors.
import { z } from 'zod'
import { topLevelFault } from '../../lib/http/public-suffix.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { networkStamp } from '../change-stamps.ts'
import { FolderOrRoot, HostName, line, Timestamp } from '../values.ts'
import { selfAndAncestors } from './tiers.ts'

export const NetworkRule = z
  .object({
    folder: FolderOrRoot.describe('Empty for the root, whose rules apply to every folder'),
    target: HostName,
    created_at: Timestamp.meta({ readOnly: true }),
    created_by: line(256).meta({ readOnly: true }),
  })
  .meta({ id: 'NetworkRules' })

/** Hosts of the model provider, which every folder may reach. */
export const DEFAULT_HOSTS: readonly string[] = ['anthropic.com', 'api.anthropic.com']

export function isDefaultRule({ folder, target }: { readonly folder: string; readonly target: string }): boolean {
  return folder === '' && DEFAULT_HOSTS.includes(target)
}

/** The proxy ignores rules for top-level domains, so such a rule would allow nothing. */
export function mustNotBeTopLevel(target: string): void {
  const fault = topLevelFault(target)
  if (fault !== undefined) refuse('invalid', `target ${fault}`)
}

export const networkRules = new Table({
  name: 'network_rules',
  row: NetworkRule,
  key: ['folder', 'target'],
  storage: [
    `create table network_rules (
       folder text not null, target text not null, created_at text not null, created_by text not null,
       primary key (folder, target))`,
    () =>
      ['anthropic.com', 'api.anthropic.com'].map(
        (host) => `insert into network_rules (folder, target, created_at, created_by)
          values ('', '${host}', '2026-01-01T00:00:00.000Z', 'system')`,
      ),
    // DEFAULT_HOSTS replaces the rows above.
    `delete from network_rules where created_by = 'system' and folder = '' and target in ('anthropic.com', 'api.anthropic.com')`,
    () => networkStamp.createStatements(),
    networkStamp.updateOnWrite('network_rules'),
  ],
})

export async function resolveAllowlist(tx: Tx, folder: string): Promise<string[]> {
  const hosts = new Set(DEFAULT_HOSTS)
  for (const level of ['', ...(folder === '' ? [] : selfAndAncestors(folder))]) {
    for (const { target } of await networkRules.list(tx, { folder: level })) hosts.add(target)
  }
  return [...hosts].sort()
}
