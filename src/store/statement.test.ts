import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../test/support/temp.ts'
import { openSqlite } from './sqlite/engine.ts'
import { queryForValues, replaceOutsideQuotes, text } from './statement.ts'
import { prepare, thing, things } from './things.contract.ts'

test('finds each row of a list of any length once, with few different statements', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  const ids = Array.from({ length: 300 }, (_, at) => String(at).padStart(3, '0'))
  await engine.transaction(async (tx) => {
    for (const id of ids) await things.insert(tx, thing(id))
  })
  const statements = new Set<string>()
  const find = (some: readonly string[]): Promise<unknown[]> =>
    engine.read(async (tx) => {
      const sql = (marks: string): string => {
        const statement = `select id from things where id <> $1 and id in (${marks}) order by id`
        statements.add(statement)
        return statement
      }
      return (await queryForValues(tx, { id: text }, some, sql, ['none'])).map(({ id }) => id)
    })
  for (const count of [0, 1, 2, 3, 127, 128, 129, 300]) {
    const some = ids.slice(0, count)
    assert.deepEqual(await find(some), some, `${count}`)
  }
  // Lists of 1, 2, 4, 64 and 128.
  assert.equal(statements.size, 5)
})

test('does not change quoted strings', () => {
  assert.equal(
    replaceOutsideQuotes(`select 'it''s $1', $2`, (part) => part.replace('$', '?')),
    `select 'it''s $1', ?2`,
  )
})
