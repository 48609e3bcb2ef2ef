// The schemas of two releases: the second appends steps to the first.
import type { StoredTable } from './migrate.ts'

const STAMPS: StoredTable = {
  name: 'stamps',
  storage: [() => ['create table stamps (stamp text not null)', `insert into stamps (stamp) values ('new')`]],
}

const THINGS: StoredTable['storage'] = [
  'create table things (id text primary key, size bigint not null, body text not null)',
  (dialect) => dialect.onWrite('things', `update stamps set stamp = ${dialect.randomTextSql}`),
]

export const FIRST_RELEASE: readonly StoredTable[] = [STAMPS, { name: 'things', storage: THINGS }]

export const SECOND_RELEASE: readonly StoredTable[] = [
  STAMPS,
  {
    name: 'things',
    storage: [
      ...THINGS,
      'alter table things add column note text',
      `update things set note = 'grown', size = size + 1`,
      'create index things_by_note on things (note, id)',
    ],
  },
  {
    name: 'parts',
    storage: [
      (dialect) => `create table parts (id ${dialect.counter}, thing_id text not null references things (id))`,
      'insert into parts (thing_id) select id from things',
    ],
  },
]

export function countSteps(tables: readonly StoredTable[]): number {
  return tables.reduce((sum, { storage }) => sum + storage.length, 0)
}
