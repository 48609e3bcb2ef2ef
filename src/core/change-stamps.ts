// Change stamps validate caches compiled from rows: triggers change the stamp on every write to its tables, in any process.
// A stamp is random text because a counter that was rolled back would repeat a value with different rows.
import type { Dialect, Tx } from '../store/engine.ts'
import { query, text } from '../store/statement.ts'

export class ChangeStamp {
  readonly #table: string

  constructor(table: string) {
    this.#table = table
  }

  /** Storage step for the first table that updates this stamp. */
  createStatements(): readonly string[] {
    return [
      `create table ${this.#table} (id integer primary key, stamp text not null)`,
      `insert into ${this.#table} (id, stamp) values (1, 'new')`,
    ]
  }

  /** Storage step for each table that updates this stamp. */
  updateOnWrite(table: string) {
    return (dialect: Dialect): readonly string[] =>
      dialect.onWrite(table, `update ${this.#table} set stamp = ${dialect.randomTextSql} where id = 1`)
  }

  async read(tx: Tx): Promise<string> {
    const [row] = await query(tx, { stamp: text }, `select stamp from ${this.#table} where id = 1`)
    return row?.stamp ?? ''
  }
}

/** Tables that proxyd decides by: web routes, proxyd routes and web hosts. */
export const frontStamp = new ChangeStamp('front_stamp')
export const groupStamp = new ChangeStamp('group_stamp')
export const routeStamp = new ChangeStamp('route_stamp')
export const settingsStamp = new ChangeStamp('settings_stamp')
export const networkStamp = new ChangeStamp('network_stamp')
