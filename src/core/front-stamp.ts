// Changes with every write to the rows that the front door decides by, whoever writes: a table of them that is kept in
// memory is known to be current.
import type { Dialect, Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'

/** A storage step of the first of these tables. */
export function makeFrontStamp(): readonly string[] {
  return [
    'create table front_stamp (id integer primary key, stamp text not null)',
    `insert into front_stamp (id, stamp) values (1, 'new')`,
  ]
}

/** A storage step of each table that the front door reads. */
export function notedAtTheDoor(table: string) {
  return (dialect: Dialect): readonly string[] =>
    dialect.onWrite(table, `update front_stamp set stamp = ${dialect.freshText} where id = 1`)
}

export async function readFrontStamp(tx: Tx): Promise<string> {
  const { rows } = await run(tx, 'select stamp from front_stamp where id = 1')
  return String(rows[0]?.stamp)
}
