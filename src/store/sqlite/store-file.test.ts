import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, type TestContext, test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Engine } from '../engine.ts'
import { prepare, refusedAs, thing, things } from '../things.contract.ts'
import { openSqlite } from './engine.ts'
import { requireStore } from './store-file.ts'

const ROWS = 300

async function fill(engine: Engine, from = 0): Promise<void> {
  await engine.transaction(async (tx) => {
    for (let index = from; index < from + ROWS; index++)
      await things.insert(tx, thing(`${index}`, { body: randomBytes(200) }))
  })
}

/** Creates a closed store with rows. */
async function createFilledStore(t: TestContext): Promise<string> {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  await fill(engine)
  await engine.close()
  return path
}

async function countRows(t: TestContext, path: string): Promise<number> {
  const engine = await prepare(t, openSqlite({ path }))
  try {
    return await engine.read((tx) => things.count(tx))
  } finally {
    await engine.close()
  }
}

test('creates stores with pages of 1 KiB and keeps larger pages of old ones', async (t) => {
  const pageBytes = (path: string): unknown => {
    using db = new DatabaseSync(path)
    return db.prepare('pragma page_size').get()?.page_size
  }
  const path = await createFilledStore(t)
  assert.equal(pageBytes(path), 1024)
  {
    using db = new DatabaseSync(path)
    db.exec('pragma journal_mode = delete; pragma page_size = 4096; vacuum; pragma journal_mode = wal')
  }
  assert.equal(await countRows(t, path), ROWS)
  assert.equal(pageBytes(path), 4096)
})

/** Asserts that opening is refused, with and without `create`, and that no file of the directory changes. */
function assertRefused(path: string, text: string, hint?: RegExp): void {
  const directory = join(path, '..')
  const readFiles = () =>
    readdirSync(directory)
      .sort()
      .map((name) => [
        name,
        statSync(join(directory, name)).isFile() ? readFileSync(join(directory, name)) : 'not a file',
      ])
  const before = readFiles()
  for (const create of [false, true]) {
    assert.throws(
      () => openSqlite({ path, create, busyMs: 50 }),
      (error) => {
        assert.ok(refusedAs('unavailable', text)(error))
        assert.ok(error instanceof Refusal && !error.message.includes('\n') && error.message.includes(path))
        if (hint) assert.match(error.hint ?? '', hint)
        return true
      },
    )
  }
  assert.deepEqual(readFiles(), before)
}

suite('refuses and does not change', () => {
  test('an empty file', (t) => {
    const path = join(tempDir(t), 'svc.db')
    writeFileSync(path, '')
    assertRefused(path, 'is empty')
  })

  test('random bytes', (t) => {
    for (const size of [1, 15, 16, 99, 100, 512, 4095, 4096, 100_000]) {
      const path = join(tempDir(t), 'svc.db')
      writeFileSync(path, randomBytes(size))
      assertRefused(path, 'is not a store of svc, or it is damaged')
    }
  })

  test('random bytes after a valid header', async (t) => {
    for (const kept of [16, 60, 100]) {
      const path = await createFilledStore(t)
      const bytes = readFileSync(path)
      randomBytes(bytes.length - kept).copy(bytes, kept)
      writeFileSync(path, bytes)
      assertRefused(path, '')
    }
  })

  test('a truncated store', async (t) => {
    const complete = readFileSync(await createFilledStore(t))
    const pages = complete.length / 4096
    assert.ok(pages > 10)
    for (const size of [50, 100, 600, 4095, 4096, 4097, 8192, complete.length - 4096, complete.length - 1]) {
      const path = join(tempDir(t), 'svc.db')
      writeFileSync(path, complete.subarray(0, size))
      assertRefused(path, 'damaged')
    }
  })

  test('a store whose beginning was overwritten, without claiming that it is truncated', async (t) => {
    const path = await createFilledStore(t)
    writeFileSync(path, readFileSync(path).fill(0x5a, 110, 900))
    assertRefused(path, 'is damaged: it is truncated, or its first pages were overwritten')
  })

  test('a database of another program', (t) => {
    for (const mode of ['delete', 'wal']) {
      const path = join(tempDir(t), 'svc.db')
      const db = new DatabaseSync(path)
      db.exec(`pragma journal_mode = ${mode}; create table theirs (a); insert into theirs values (1)`)
      db.close()
      assertRefused(path, 'another program')
    }
  })

  test('a directory', (t) => {
    const path = join(tempDir(t), 'svc.db')
    mkdirSync(path)
    assertRefused(path, 'is not a file')
  })

  test('a pipe, which would block', (t) => {
    const path = join(tempDir(t), 'svc.db')
    execFileSync('mkfifo', [path])
    assert.throws(() => openSqlite({ path, create: true }), refusedAs('unavailable', 'is not a file'))
  })

  test('a path below a file', (t) => {
    const file = join(tempDir(t), 'file')
    writeFileSync(file, 'not a directory')
    const path = join(file, 'svc.db')
    assert.throws(() => openSqlite({ path, create: true }), refusedAs('unavailable', '(ENOTDIR)'))
    assert.throws(() => openSqlite({ path }), refusedAs('not_found', 'there is no store'))
    assert.equal(readFileSync(file, 'utf8'), 'not a directory')
  })

  test('a missing directory and a dangling link', (t) => {
    const directory = tempDir(t)
    const path = join(directory, 'none', 'svc.db')
    assert.throws(() => openSqlite({ path, create: true }), refusedAs('unavailable', '(ENOENT)'))
    symlinkSync(join(directory, 'nowhere'), join(directory, 'link.db'))
    assert.throws(
      () => openSqlite({ path: join(directory, 'link.db'), create: true }),
      refusedAs('unavailable', 'cannot be created'),
    )
    assert.deepEqual(readdirSync(directory), ['link.db'])
  })
})

suite('refuses a store that cannot be written', () => {
  test('on a read-only mount', needs('root'), async (t) => {
    const path = await createFilledStore(t)
    const mounted = tempDir(t)
    execFileSync('mount', ['--bind', join(path, '..'), mounted])
    // Not in a hook, which would run after the removal of the directory.
    try {
      execFileSync('mount', ['-o', 'remount,ro,bind', mounted])
      assertRefused(join(mounted, 'svc.db'), '(EROFS)', /check the permissions/)
      const create = (): Engine => openSqlite({ path: join(mounted, 'new.db'), create: true })
      assert.throws(create, refusedAs('unavailable', '(EROFS)'))
    } finally {
      execFileSync('umount', [mounted])
    }
  })

  test('if the user lacks a permission on the file or its directory', needs('root'), async (t) => {
    const path = await createFilledStore(t)
    const directory = join(path, '..')
    const attempt = (): string =>
      execFileSync(process.execPath, ['--input-type=module', '--eval', ATTEMPT, import.meta.dirname, path], {
        encoding: 'utf8',
      })
    for (const [fileMode, directoryMode] of [
      [0o600, 0o777],
      [0o644, 0o777],
      [0o666, 0o755],
    ] as const) {
      chmodSync(path, fileMode)
      chmodSync(directory, directoryMode)
      const before = readFileSync(path)
      assert.match(attempt(), /^unavailable: the store at .* cannot be opened \(EACCES\)\n$/)
      assert.deepEqual(readFileSync(path), before)
    }
    chmodSync(path, 0o666)
    chmodSync(directory, 0o777)
    assert.equal(attempt(), 'opened\n')
  })
})

// Switches to an unprivileged user only after loading the modules, which that user may not be able to read.
const ATTEMPT = `
const [directory, path] = process.argv.slice(1)
const { openSqlite } = await import(directory + '/engine.ts')
process.setgroups([])
process.setgid(65534)
process.setuid(65534)
try {
  await openSqlite({ path }).close()
  console.log('opened')
} catch (error) {
  console.log(error.code + ': ' + error.message)
}`

suite('a store after a crash', () => {
  /** Copies the files while the engine has them open. */
  function copyFiles(from: string, to: string, { page }: { page?: Uint8Array } = {}): void {
    copyFileSync(from, to)
    copyFileSync(`${from}-wal`, `${to}-wal`)
    if (page) writeFileSync(to, Buffer.concat([page, readFileSync(to).subarray(page.length)]))
  }

  test('is recovered when it is opened', async (t) => {
    const directory = tempDir(t)
    const engine = await prepare(t, openSqlite({ path: join(directory, 'svc.db'), create: true }))
    await fill(engine)
    copyFiles(join(directory, 'svc.db'), join(directory, 'crashed.db'))
    assert.equal(await countRows(t, join(directory, 'crashed.db')), ROWS)
  })

  test('is recovered after a crash during a checkpoint', async (t) => {
    const directory = tempDir(t)
    const path = join(directory, 'svc.db')
    const engine = await prepare(t, openSqlite({ path, create: true }))
    await fill(engine)
    copyFiles(path, join(directory, 'crashed.db'))
    await engine.close()
    // Only the first page was written: its header counts pages that are still missing.
    copyFiles(join(directory, 'crashed.db'), join(directory, 'torn.db'), { page: readFileSync(path).subarray(0, 4096) })
    assert.ok(statSync(join(directory, 'torn.db')).size < statSync(path).size)
    assert.equal(await countRows(t, join(directory, 'torn.db')), ROWS)
  })

  test('is refused if the log cannot repair it', async (t) => {
    const path = await createFilledStore(t)
    truncateSync(path, statSync(path).size - 8192)
    writeFileSync(`${path}-wal`, randomBytes(5000))
    const before = readFileSync(path)
    assert.throws(() => openSqlite({ path }), refusedAs('unavailable', 'damaged'))
    assert.deepEqual(readFileSync(path), before)
  })
})

suite('creating and copying', () => {
  test('creates a store only on request and leaves no other files', async (t) => {
    const directory = tempDir(t)
    const path = join(directory, 'a b #1?%20.db')
    assert.throws(() => openSqlite({ path }), refusedAs('not_found'))
    assert.deepEqual(readdirSync(directory), [])
    await openSqlite({ path, create: true }).close()
    assert.deepEqual(readdirSync(directory), ['a b #1?%20.db'])
    await openSqlite({ path }).close()
  })

  const locks = '/proc/locks'
  const skip = existsSync(locks) ? {} : { skip: `there is no ${locks}` }
  test('keeps the locks of open connections when it checks the file', skip, async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const engine = await prepare(t, openSqlite({ path, create: true }))
    await fill(engine)
    // Without this lock another program could delete the log while it is in use.
    const isLocked = (): boolean => readFileSync(locks, 'utf8').includes(`:${statSync(path).ino} `)
    assert.ok(isLocked())
    requireStore(path)
    await openSqlite({ path }).close()
    assert.ok(isLocked())
  })

  test('copies the store at one moment', async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const engine = await prepare(t, openSqlite({ path, create: true }))
    await fill(engine)
    const copy = (await engine.copy?.('one')) ?? assert.fail()
    await fill(engine, ROWS)
    assert.equal(copy, `${path}.one`)
    assert.equal(await countRows(t, copy), ROWS)
    assert.equal(await countRows(t, path), 2 * ROWS)
    const db = new DatabaseSync(copy)
    t.after(() => db.close())
    assert.equal(Object.values(db.prepare('pragma integrity_check').get() ?? {})[0], 'ok')
  })

  test('does not overwrite copies, and copies during a transaction', async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const engine = await prepare(t, openSqlite({ path, create: true }))
    await fill(engine)
    const began = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const writing = engine.transaction(async (tx) => {
      await things.remove(tx, { open: true })
      began.resolve()
      await release.promise
    })
    await began.promise
    const copies = [await engine.copy?.('x'), await engine.copy?.('x'), await engine.copy?.('x')]
    release.resolve()
    await writing
    assert.deepEqual(copies, [`${path}.x`, `${path}.x-2`, `${path}.x-3`])
    for (const copy of copies) assert.equal(await countRows(t, copy ?? ''), ROWS)
    assert.deepEqual(
      readdirSync(join(path, '..')).filter((name) => name.includes('.new-')),
      [],
    )
  })
})
