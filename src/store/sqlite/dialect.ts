// The SQL dialect of SQLite.
import type { Dialect } from '../engine.ts'

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  adapt: (ddl) => ddl,
  counter: 'integer primary key autoincrement',
  findTableSql: `select name from sqlite_schema where type = 'table' and name = $1`,
  randomTextSql: 'hex(randomblob(16))',
  clusteredSql: ' without rowid',
  isRemote: false,
  lockTableSql: () => undefined,
  notifySql: undefined,
  onWrite: (table, set) =>
    ['insert', 'update', 'delete'].map(
      (event) => `create trigger ${table}_${event}_noted after ${event} on ${table} begin ${set}; end`,
    ),
  onInsert: (table, name, then) => [`create trigger ${name} after insert on ${table} begin ${then}; end`],
  onDelete: (table, name, then) => [`create trigger ${name} after delete on ${table} begin ${then}; end`],
  onUpdate: (table, name, then) => [`create trigger ${name} after update on ${table} begin ${then}; end`],
}
