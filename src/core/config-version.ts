// The configuration version: `apply` increments it, and a manifest must name the current one.
import { z } from 'zod'
import type { Tx } from '../store/engine.ts'
import { execute, integer, queryOne } from '../store/statement.ts'
import { Table } from '../store/table.ts'

export const configVersion = new Table({
  name: 'config_version',
  row: z.object({ id: z.int(), version: z.int() }),
  key: 'id',
  storage: [
    () => [
      'create table config_version (id integer primary key, version bigint not null)',
      'insert into config_version (id, version) values (1, 1)',
    ],
  ],
})

export async function readConfigVersion(tx: Tx): Promise<number> {
  return (await queryOne(tx, { version: integer }, 'select version from config_version where id = 1')).version
}

export async function bumpConfigVersion(tx: Tx): Promise<void> {
  await execute(tx, 'update config_version set version = version + 1 where id = 1')
}
