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

/** A store with rows, closed: one file. */
async function makeStore(t: TestContext): Promise<string> {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  await fill(engine)
  await engine.close()
  return path
}

async function count(t: TestContext, path: string): Promise<number> {
  const engine = await prepare(t, openSqlite({ path }))
  try {
    return await engine.read((tx) => things.count(tx))
  } finally {
    await engine.close()
  }
}

test('a new store has pages of 1 KiB, and one with larger pages keeps them', async (t) => {
  const pageBytes = (path: string): unknown => {
    using db = new DatabaseSync(path)
    return db.prepare('pragma page_size').get()?.page_size
  }
  const path = await makeStore(t)
  assert.equal(pageBytes(path), 1024)
  {
    using db = new DatabaseSync(path)
    db.exec('pragma journal_mode = delete; pragma page_size = 4096; vacuum; pragma journal_mode = wal')
  }
  assert.equal(await count(t, path), ROWS)
  assert.equal(pageBytes(path), 4096)
})

/** Opening is refused in one sentence, whether or not the store may be made, and not a byte of the folder changes. */
function assertRefused(path: string, text: string, hint?: RegExp): void {
  const folder = join(path, '..')
  const look = () =>
    readdirSync(folder)
      .sort()
      .map((name) => [name, statSync(join(folder, name)).isFile() ? readFileSync(join(folder, name)) : 'no file'])
  const before = look()
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
  assert.deepEqual(look(), before)
}

suite('a file that is no store is refused and left as it is', () => {
  test('an empty one', (t) => {
    const path = join(tempDir(t), 'svc.db')
    writeFileSync(path, '')
    assertRefused(path, 'is empty')
  })

  test('random bytes, few and many', (t) => {
    for (const size of [1, 15, 16, 99, 100, 512, 4095, 4096, 100_000]) {
      const path = join(tempDir(t), 'svc.db')
      writeFileSync(path, randomBytes(size))
      assertRefused(path, 'is not a store of svc, or it is damaged')
    }
  })

  test('random bytes behind the right beginning', async (t) => {
    for (const kept of [16, 60, 100]) {
      const path = await makeStore(t)
      const bytes = readFileSync(path)
      randomBytes(bytes.length - kept).copy(bytes, kept)
      writeFileSync(path, bytes)
      assertRefused(path, '')
    }
  })

  test('a store that was cut short, wherever', async (t) => {
    const whole = readFileSync(await makeStore(t))
    const pages = whole.length / 4096
    assert.ok(pages > 10)
    for (const size of [50, 100, 600, 4095, 4096, 4097, 8192, whole.length - 4096, whole.length - 1]) {
      const path = join(tempDir(t), 'svc.db')
      writeFileSync(path, whole.subarray(0, size))
      assertRefused(path, 'damaged')
    }
  })

  test('another program’s database, whichever its mode', (t) => {
    for (const mode of ['delete', 'wal']) {
      const path = join(tempDir(t), 'svc.db')
      const db = new DatabaseSync(path)
      db.exec(`pragma journal_mode = ${mode}; create table theirs (a); insert into theirs values (1)`)
      db.close()
      assertRefused(path, 'another program')
    }
  })

  test('a folder', (t) => {
    const path = join(tempDir(t), 'svc.db')
    mkdirSync(path)
    assertRefused(path, 'is not a file')
  })

  test('a pipe, on which opening would wait for ever', (t) => {
    const path = join(tempDir(t), 'svc.db')
    execFileSync('mkfifo', [path])
    assert.throws(() => openSqlite({ path, create: true }), refusedAs('unavailable', 'is not a file'))
  })

  test('a path through a file', (t) => {
    const file = join(tempDir(t), 'file')
    writeFileSync(file, 'not a folder')
    const path = join(file, 'svc.db')
    assert.throws(() => openSqlite({ path, create: true }), refusedAs('unavailable', '(ENOTDIR)'))
    assert.throws(() => openSqlite({ path }), refusedAs('not_found', 'there is no store'))
    assert.equal(readFileSync(file, 'utf8'), 'not a folder')
  })

  test('a folder that is not there, and a link that leads nowhere', (t) => {
    const folder = tempDir(t)
    const path = join(folder, 'none', 'svc.db')
    assert.throws(() => openSqlite({ path, create: true }), refusedAs('unavailable', '(ENOENT)'))
    symlinkSync(join(folder, 'nowhere'), join(folder, 'link.db'))
    assert.throws(
      () => openSqlite({ path: join(folder, 'link.db'), create: true }),
      refusedAs('unavailable', 'cannot be made'),
    )
    assert.deepEqual(readdirSync(folder), ['link.db'])
  })
})

suite('a store on which nothing can be written is refused', () => {
  test('on a disk that is mounted read-only', needs('root'), async (t) => {
    const path = await makeStore(t)
    const mounted = tempDir(t)
    execFileSync('mount', ['--bind', join(path, '..'), mounted])
    // Not in a hook: the folder's own removal would come first.
    try {
      execFileSync('mount', ['-o', 'remount,ro,bind', mounted])
      assertRefused(join(mounted, 'svc.db'), '(EROFS)', /check the rights/)
      const making = (): Engine => openSqlite({ path: join(mounted, 'new.db'), create: true })
      assert.throws(making, refusedAs('unavailable', '(EROFS)'))
    } finally {
      execFileSync('umount', [mounted])
    }
  })

  test('for a user who may not read it, not write it, or not write its folder', needs('root'), async (t) => {
    const path = await makeStore(t)
    const folder = join(path, '..')
    const attempt = (): string =>
      execFileSync(process.execPath, ['--input-type=module', '--eval', ATTEMPT, import.meta.dirname, path], {
        encoding: 'utf8',
      })
    for (const [fileMode, folderMode] of [
      [0o600, 0o777],
      [0o644, 0o777],
      [0o666, 0o755],
    ] as const) {
      chmodSync(path, fileMode)
      chmodSync(folder, folderMode)
      const before = readFileSync(path)
      assert.match(attempt(), /^unavailable: the store at .* cannot be opened \(EACCES\)\n$/)
      assert.deepEqual(readFileSync(path), before)
    }
    chmodSync(path, 0o666)
    chmodSync(folder, 0o777)
    assert.equal(attempt(), 'opened\n')
  })
})

// Becomes nobody only when the modules are loaded: nobody may not be able to read the checkout.
const ATTEMPT = `
const [folder, path] = process.argv.slice(1)
const { openSqlite } = await import(folder + '/engine.ts')
process.setgroups([])
process.setgid(65534)
process.setuid(65534)
try {
  await openSqlite({ path }).close()
  console.log('opened')
} catch (error) {
  console.log(error.code + ': ' + error.message)
}`

suite('a store as a crash leaves it', () => {
  /** The files as they lie there while the engine still has them open. */
  function image(from: string, to: string, { page }: { page?: Uint8Array } = {}): void {
    copyFileSync(from, to)
    copyFileSync(`${from}-wal`, `${to}-wal`)
    if (page) writeFileSync(to, Buffer.concat([page, readFileSync(to).subarray(page.length)]))
  }

  test('is whole again when it is opened', async (t) => {
    const folder = tempDir(t)
    const engine = await prepare(t, openSqlite({ path: join(folder, 'svc.db'), create: true }))
    await fill(engine)
    image(join(folder, 'svc.db'), join(folder, 'crashed.db'))
    assert.equal(await count(t, join(folder, 'crashed.db')), ROWS)
  })

  test('is whole again too when it died while the log was being written back, page by page', async (t) => {
    const folder = tempDir(t)
    const path = join(folder, 'svc.db')
    const engine = await prepare(t, openSqlite({ path, create: true }))
    await fill(engine)
    image(path, join(folder, 'crashed.db'))
    await engine.close()
    // Of the finished file, only the first page made it: its header tells of pages that are not there yet.
    image(join(folder, 'crashed.db'), join(folder, 'torn.db'), { page: readFileSync(path).subarray(0, 4096) })
    assert.ok(statSync(join(folder, 'torn.db')).size < statSync(path).size)
    assert.equal(await count(t, join(folder, 'torn.db')), ROWS)
  })

  test('is refused when its log is of no help', async (t) => {
    const path = await makeStore(t)
    truncateSync(path, statSync(path).size - 8192)
    writeFileSync(`${path}-wal`, randomBytes(5000))
    const before = readFileSync(path)
    assert.throws(() => openSqlite({ path }), refusedAs('unavailable', 'damaged'))
    assert.deepEqual(readFileSync(path), before)
  })
})

suite('making and copying', () => {
  test('a store is made only when that is asked for, and leaves nothing beside it', async (t) => {
    const folder = tempDir(t)
    const path = join(folder, 'a b #1?%20.db')
    assert.throws(() => openSqlite({ path }), refusedAs('not_found'))
    assert.deepEqual(readdirSync(folder), [])
    await openSqlite({ path, create: true }).close()
    assert.deepEqual(readdirSync(folder), ['a b #1?%20.db'])
    await openSqlite({ path }).close()
  })

  const locks = '/proc/locks'
  const skip = existsSync(locks) ? {} : { skip: `there is no ${locks}` }
  test('looking at a store does not drop the locks of whoever has it open in the same process', skip, async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const engine = await prepare(t, openSqlite({ path, create: true }))
    await fill(engine)
    // Without this lock another program, believing itself the last one, may take the log away under us.
    const isLocked = (): boolean => readFileSync(locks, 'utf8').includes(`:${statSync(path).ino} `)
    assert.ok(isLocked())
    requireStore(path)
    await openSqlite({ path }).close()
    assert.ok(isLocked())
  })

  test('a copy is a store of its own, as of that moment', async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const engine = await prepare(t, openSqlite({ path, create: true }))
    await fill(engine)
    const copy = (await engine.copy?.('one')) ?? assert.fail()
    await fill(engine, ROWS)
    assert.equal(copy, `${path}.one`)
    assert.equal(await count(t, copy), ROWS)
    assert.equal(await count(t, path), 2 * ROWS)
    const db = new DatabaseSync(copy)
    t.after(() => db.close())
    assert.equal(Object.values(db.prepare('pragma integrity_check').get() ?? {})[0], 'ok')
  })

  test('a copy takes the place of no other, and can be made while a transaction runs', async (t) => {
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
    for (const copy of copies) assert.equal(await count(t, copy ?? ''), ROWS)
    assert.deepEqual(
      readdirSync(join(path, '..')).filter((name) => name.includes('.new-')),
      [],
    )
  })
})
