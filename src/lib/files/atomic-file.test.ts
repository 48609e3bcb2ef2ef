import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Refusal, type RefusalCode } from '../refusal.ts'
import { readText, refuseDisk, writeAtomic } from './atomic-file.ts'

function freshDir(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'svc-atomic-'))
  t.after(() => rm(dir, { recursive: true, force: true }))
  return dir
}

const refused = (code: RefusalCode, sentence: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Refusal, String(error))
  assert.equal(error.code, code)
  assert.match(error.message, sentence)
  return true
}

test('writes a file with its mode whatever the umask', async (t) => {
  const dir = freshDir(t)
  const path = join(dir, '.env')
  const umask = process.umask(0o077)
  t.after(() => process.umask(umask))
  await writeAtomic(path, 'A=1\n', 0o644)
  assert.equal(readFileSync(path, 'utf8'), 'A=1\n')
  assert.equal(statSync(path).mode & 0o777, 0o644)
  await writeAtomic(path, Buffer.from([0, 255]), 0o600)
  assert.deepEqual([...readFileSync(path)], [0, 255])
  assert.equal(statSync(path).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(dir), ['.env'])
})

test('keeps the old file and leaves no other when a write fails', async (t) => {
  const dir = freshDir(t)
  const path = join(dir, 'taken')
  mkdirSync(path)
  writeFileSync(join(path, 'inside'), 'kept')
  await assert.rejects(
    writeAtomic(path, 'x', 0o600),
    (error) => error instanceof Refusal && error.message.includes(path),
  )
  assert.deepEqual(readdirSync(dir), ['taken'])
  assert.equal(readFileSync(join(path, 'inside'), 'utf8'), 'kept')
})

test('names the path when the directory is missing', async (t) => {
  const path = join(freshDir(t), 'no', 'file')
  await assert.rejects(
    writeAtomic(path, 'x', 0o600),
    refused('not_found', /^cannot write .*no\/file: its directory does not exist$/),
  )
})

test('leaves one whole file after many concurrent writes', async (t) => {
  const dir = freshDir(t)
  const path = join(dir, 'state.json')
  const texts = Array.from({ length: 20 }, (_, index) => String(index).repeat(10_000))
  await Promise.all(texts.map((text) => writeAtomic(path, text, 0o600)))
  assert.ok(texts.includes(readFileSync(path, 'utf8')))
  assert.deepEqual(readdirSync(dir), ['state.json'])
})

test('reads a file of exactly the limit and refuses one byte more', async (t) => {
  const path = join(freshDir(t), 'file')
  writeFileSync(path, 'é'.repeat(50_000))
  assert.equal(await readText(path, 100_000), 'é'.repeat(50_000))
  await assert.rejects(readText(path, 99_999), refused('too_large', /^cannot read .*: it is larger than 99999 bytes$/))
})

test('says why a file cannot be read as text, and does not hang on a FIFO', async (t) => {
  const dir = freshDir(t)
  const make = (name: string, work: (path: string) => void) => {
    const path = join(dir, name)
    work(path)
    return path
  }
  const latin = make('latin', (path) => writeFileSync(path, Buffer.from([0x41, 0xe9, 0x42])))
  const fifo = make('fifo', (path) => execFileSync('mkfifo', [path]))
  const circle = make('circle', (path) => symlinkSync(path, path))
  const plain = make('plain', (path) => writeFileSync(path, 'x'))
  await assert.rejects(readText(join(dir, 'none'), 10), refused('not_found', /^cannot read .*none: it does not exist$/))
  await assert.rejects(readText(dir, 10), refused('invalid', /: it is a directory$/))
  await assert.rejects(readText(fifo, 10), refused('invalid', /: it is not a regular file$/))
  await assert.rejects(readText('/dev/zero', 10), refused('invalid', /: it is not a regular file$/))
  await assert.rejects(readText(latin, 10), refused('invalid', /: it is not UTF-8 text$/))
  await assert.rejects(readText(circle, 10), refused('invalid', /form a loop$/))
  await assert.rejects(readText(join(plain, 'x'), 10), refused('invalid', /: a part of the path is not a directory$/))
})

test('refuses a file without permission as forbidden', async (t) => {
  const dir = freshDir(t)
  const path = join(dir, 'closed')
  writeFileSync(path, 'x')
  chmodSync(path, 0)
  chmodSync(dir, 0o755)
  await asNobody(() => assert.rejects(readText(path, 10), refused('forbidden', /: permission denied$/)))
})

/** Root may read every file, so drop privileges for a moment. */
async function asNobody(work: () => Promise<void>): Promise<void> {
  const isRoot = process.geteuid?.() === 0
  if (isRoot) process.seteuid?.(65_534)
  try {
    await work()
  } finally {
    if (isRoot) process.seteuid?.(0)
  }
}

test('maps each file system error to a refusal and rethrows others', () => {
  const cases: Record<string, [RefusalCode, RegExp]> = {
    ENOSPC: ['unavailable', /^cannot write \/x: the disk is full$/],
    EROFS: ['unavailable', /read-only/],
    EACCES: ['forbidden', /permission denied/],
    EDQUOT: ['unavailable', /quota/],
    ENAMETOOLONG: ['invalid', /too long/],
  }
  for (const [code, [refusal, sentence]] of Object.entries(cases)) {
    const error = Object.assign(new Error(code), { code })
    assert.throws(() => refuseDisk(error, 'write', '/x'), refused(refusal, sentence))
  }
  const odd = Object.assign(new Error('odd'), { code: 'EODD' })
  assert.throws(() => refuseDisk(odd, 'write', '/x'), odd)
  assert.throws(
    () => refuseDisk('text', 'write', '/x'),
    (error) => error === 'text',
  )
})
