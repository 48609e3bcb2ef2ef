// Which hosts a folder's agent may reach: its own rules and those of every folder above it, down from the root.
import { z } from 'zod'
import type { Tx } from '../store/engine.ts'
import { Table } from '../store/table.ts'
import { ancestry } from './tiers.ts'
import { FolderOrRoot, HostName, line, Timestamp } from './values.ts'

export const NetworkRule = z
  .object({
    folder: FolderOrRoot.describe('Empty: the root, for every folder'),
    target: HostName,
    created_at: Timestamp.meta({ readOnly: true }),
    created_by: line(256).meta({ readOnly: true }),
  })
  .meta({ id: 'NetworkRules' })

/** Hosts of the model provider, without which no agent can think. */
const SEEDED = ['anthropic.com', 'api.anthropic.com']

export const networkRules = new Table({
  name: 'network_rules',
  row: NetworkRule,
  key: ['folder', 'target'],
  storage: [
    `create table network_rules (
       folder text not null, target text not null, created_at text not null, created_by text not null,
       primary key (folder, target))`,
    () =>
      SEEDED.map(
        (host) => `insert into network_rules (folder, target, created_at, created_by)
          values ('', '${host}', '2026-01-01T00:00:00.000Z', 'system')`,
      ),
  ],
})

export async function resolveAllowlist(tx: Tx, folder: string): Promise<string[]> {
  const hosts = new Set<string>()
  for (const level of ['', ...(folder === '' ? [] : ancestry(folder))]) {
    for (const { target } of await networkRules.list(tx, { folder: level })) hosts.add(target)
  }
  return [...hosts].sort()
}
