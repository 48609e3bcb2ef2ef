// Numbers of worlds (the first segments of folders), from which the users of their agents follow. They never change, because
// the users own the files. Not exported: they belong to the files of this instance. A backup has both.
import { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'

export const worldUsers = new Table({
  name: 'world_users',
  row: z.object({ world: z.string(), ordinal: z.int() }),
  key: 'world',
  storage: ['create table world_users (world text primary key, ordinal bigint not null unique)'],
})

/** The number of a world, starting at 0. */
export async function findWorldOrdinal(engine: Pick<Engine, 'read' | 'transaction'>, world: string): Promise<number> {
  const known = await engine.read((tx) => worldUsers.find(tx, { world }))
  return known?.ordinal ?? (await engine.transaction((tx) => allocateOrdinal(tx, world)))
}

async function allocateOrdinal(tx: Tx, world: string): Promise<number> {
  await execute(
    tx,
    `insert into world_users (world, ordinal) select $1, coalesce(max(ordinal) + 1, 0) from world_users where true
     on conflict do nothing`,
    [world],
  )
  const { ordinal } = (await worldUsers.find(tx, { world })) ?? refuse('conflict', `no user was chosen for ${world}`)
  return ordinal
}
