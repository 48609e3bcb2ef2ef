// A store on a full disk.
import assert from 'node:assert/strict'
import { copyFileSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import { fillUp, onSmallDisk } from '../../../test/support/small-disk.ts'
import { tempDir } from '../../../test/support/temp.ts'
import type { Engine } from '../engine.ts'
import { migrate } from '../migrate.ts'
import { refusedAs, THING_TABLES, thing, things } from '../things.contract.ts'
import { openSqlite } from './engine.ts'

const NOW = (): string => '2026-01-01T00:00:00.000Z'
const KIB = 1024

const insert = (engine: Engine, id: string, bytes: number): Promise<void> =>
  engine.transaction((tx) => things.insert(tx, thing(id, { body: new Uint8Array(bytes).fill(1) })))

function assertIntact(path: string): void {
  const db = new DatabaseSync(path)
  try {
    assert.equal(Object.values(db.prepare('pragma integrity_check').get() ?? {})[0], 'ok')
  } finally {
    db.close()
  }
}

const KINDS = ['tmpfs', 'ext4'] as const

for (const kind of KINDS) {
  suite(`a full disk (${kind})`, needs('root'), () => {
    test('refuses writes that do not fit, keeps the others, and recovers when there is space', async (t) => {
      await onSmallDisk(tempDir(t), kind, async (root) => {
        const path = join(root, 'svc.db')
        const engine = openSqlite({ path, create: true })
        try {
          await migrate(engine, THING_TABLES, NOW)
          for (let index = 0; index < 20; index++) await insert(engine, `early-${index}`, KIB)
          const ballast = fillUp(root)
          const kept = new Set(Array.from({ length: 20 }, (_, index) => `early-${index}`))
          // The existing space of the log is used first.
          let refusals = 0
          for (let index = 0; refusals < 5; index++) {
            const outcome = await insert(engine, `late-${index}`, 20 * KIB).then(
              () => 'kept',
              (error: unknown) => refusedAs('unavailable', 'full')(error) && 'refused',
            )
            if (outcome === 'kept') kept.add(`late-${index}`)
            else refusals++
          }
          const ids = async (): Promise<Set<string>> =>
            new Set((await engine.read((tx) => things.list(tx))).map(({ id }) => id))
          assert.deepEqual(await ids(), kept)
          rmSync(ballast)
          await insert(engine, 'after', 20 * KIB)
          assert.deepEqual(await ids(), new Set([...kept, 'after']))
        } finally {
          await engine.close()
        }
        assertIntact(path)
      })
    })

    test('refuses only the transactions of a batch that do not fit', async (t) => {
      await onSmallDisk(tempDir(t), kind, async (root) => {
        const engine = openSqlite({ path: join(root, 'svc.db'), create: true })
        try {
          await migrate(engine, THING_TABLES, NOW)
          fillUp(root, 200 * KIB)
          const sizes = [KIB, KIB, 900 * KIB, KIB, KIB]
          const outcomes = await Promise.allSettled(sizes.map((bytes, index) => insert(engine, `${index}`, bytes)))
          assert.deepEqual(outcomes.map(({ status }) => status[0]).join(''), 'ffrff')
          assert.ok(outcomes[2]?.status === 'rejected' && refusedAs('unavailable', 'full')(outcomes[2].reason))
          assert.deepEqual((await engine.read((tx) => things.list(tx))).map(({ id }) => id).join(''), '0134')
        } finally {
          await engine.close()
        }
      })
    })

    test('refuses to create, copy or migrate a store, and leaves no files', async (t) => {
      await onSmallDisk(tempDir(t), kind, async (root) => {
        const path = join(root, 'svc.db')
        const engine = openSqlite({ path, create: true })
        try {
          await migrate(engine, THING_TABLES, NOW)
          for (let index = 0; index < 10; index++) await insert(engine, `${index}`, 30 * KIB)
          const ballast = fillUp(root)
          const before = readdirSync(root).sort()
          await assert.rejects(engine.copy?.('copy') ?? assert.fail(), refusedAs('unavailable', 'full'))
          assert.throws(
            () => openSqlite({ path: join(root, 'new.db'), create: true }),
            refusedAs('unavailable', 'full'),
          )
          const newTables = [...THING_TABLES, { name: 'more', storage: ['create table more (id text)'] }]
          await assert.rejects(migrate(engine, newTables, NOW), refusedAs('unavailable', 'full'))
          assert.deepEqual(readdirSync(root).sort(), before)
          rmSync(ballast)
          assert.equal(await migrate(engine, newTables, NOW), 1)
        } finally {
          await engine.close()
        }
      })
    })

    test('opens and reads a store, or reports that the disk is full', async (t) => {
      const directory = tempDir(t)
      const created = openSqlite({ path: join(directory, 'svc.db'), create: true })
      await migrate(created, THING_TABLES, NOW)
      await insert(created, 'a', KIB)
      await created.close()
      await onSmallDisk(directory, kind, async (root) => {
        copyFileSync(join(directory, 'svc.db'), join(root, 'svc.db'))
        const ballast = fillUp(root)
        try {
          const engine = openSqlite({ path: join(root, 'svc.db') })
          assert.equal(await engine.read((tx) => things.count(tx)), 1)
          await engine.close()
        } catch (error) {
          assert.ok(refusedAs('unavailable', 'full')(error))
        }
        rmSync(ballast)
        const engine = openSqlite({ path: join(root, 'svc.db') })
        assert.equal(await engine.read((tx) => things.count(tx)), 1)
        await engine.close()
      })
    })
  })
}
