// Reads the audit log and the texts of the store.
import { coreTables } from '../../src/core/index.ts'
import { audit } from '../../src/registry/audit.ts'
import { resources } from '../../src/resources/index.ts'
import type { TestHost } from './host.ts'
import { run } from './sql.ts'

export interface AuditedCall {
  action: string
  actor: string
  key: string
  outcome: string
  surface: string
}

/** Returns the audit rows that `work` adds, oldest first, including a refusal. */
export async function auditedCalls(at: TestHost, work: () => Promise<unknown>): Promise<AuditedCall[]> {
  const rows = () => at.host.engine.read((tx) => audit.list(tx))
  const before = (await rows()).length
  await work().catch(() => {})
  return (await rows())
    .slice(before)
    .map(({ action, actor, key, outcome, surface }) => ({ action, actor, key, outcome, surface }))
}

/** Every row of every table, with bytes as hex: everything that a leaked store would reveal. */
export async function wholeStore({ host }: TestHost): Promise<string> {
  const names = new Set([...coreTables, ...resources.map(({ table }) => table)].map(({ name }) => name))
  const dumps = [...names].map((name) => host.engine.read((tx) => run(tx, `select * from ${name}`)))
  const values = (await Promise.all(dumps)).flatMap(({ rows }) => rows.flatMap((row) => Object.values(row)))
  return values.map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value)).join('\n')
}

/** Makes all further audit rows fail. */
export async function breakAudit({ host }: TestHost): Promise<void> {
  await host.engine.transaction((tx) => run(tx, 'drop table audit'))
}
