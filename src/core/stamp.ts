// Stamps: each changes with every write to the tables that note it, whoever writes, so that what is compiled from their rows
// and kept in memory is known to be current. Random text and not a counter: one that was rolled back would come again.
import type { Dialect, Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'

export class Stamp {
  readonly #table: string

  constructor(table: string) {
    this.#table = table
  }

  /** A storage step of the first of the tables that note it. */
  make(): readonly string[] {
    return [
      `create table ${this.#table} (id integer primary key, stamp text not null)`,
      `insert into ${this.#table} (id, stamp) values (1, 'new')`,
    ]
  }

  /** A storage step of each of them. */
  notedBy(table: string) {
    return (dialect: Dialect): readonly string[] =>
      dialect.onWrite(table, `update ${this.#table} set stamp = ${dialect.freshText} where id = 1`)
  }

  async read(tx: Tx): Promise<string> {
    const { rows } = await run(tx, `select stamp from ${this.#table} where id = 1`)
    return String(rows[0]?.stamp)
  }
}

/** What the front door decides by. */
export const frontStamp = new Stamp('front_stamp')
/** Which groups there are. */
export const groupStamp = new Stamp('group_stamp')
/** Where messages go. */
export const routeStamp = new Stamp('route_stamp')
/** Which hosts folders may reach. */
export const networkStamp = new Stamp('network_stamp')
