import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, createReadStream, openSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'

const MODULE = JSON.stringify(new URL('./log-stream.ts', import.meta.url).href)
const node = (script: string): string[] => [
  ...['--input-type=module', '--eval'],
  `const { LogStream } = await import(${MODULE})\n${script}`,
]

test('drops and counts lines beyond a limit when nothing reads them', async () => {
  const script = `const stream = new LogStream(1000000)
    for (let n = 0; n < 10000; n++) stream.write('x'.repeat(998) + '\\ny\\n')
    process.stdout.write('written ' + stream.dropped)`
  const child = spawn(process.execPath, node(script))
  let told = ''
  child.stdout.on('data', (chunk) => {
    told += chunk
  })
  while (!told.startsWith('written')) await once(child.stdout, 'data')
  let lines = ''
  child.stderr.on('data', (chunk) => {
    lines += chunk
  })
  await once(child, 'close')
  const dropped = Number(told.split(' ')[1])
  assert.ok(dropped > 10_000, told)
  const written = lines.trimEnd().split('\n')
  assert.equal(written.length - 1 + dropped, 20_000)
  assert.deepEqual(JSON.parse(written.at(-1) ?? ''), {
    level: 'warn',
    time: JSON.parse(written.at(-1) ?? '').time,
    lines: dropped,
    msg: 'log lines were dropped: stderr is too slow',
  })
})

/** How a process ends whose stderr is on a full disk. */
function onFullDisk(script: string): { code: number | null; stdout: string } {
  const full = openSync('/dev/full', 'w')
  const { status, stdout } = spawnSync(process.execPath, node(script), {
    stdio: ['ignore', 'pipe', full],
    encoding: 'utf8',
    timeout: 10 * 60_000,
    killSignal: 'SIGKILL',
  })
  closeSync(full)
  return { code: status, stdout }
}

test('keeps the process running when the disk of its log is full', () => {
  const script = `const stream = new LogStream(1000)
    for (let n = 0; n < 100; n++) {
      stream.write('a line of twenty-one.\\n')
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    process.stdout.write('dropped ' + stream.dropped)`
  assert.deepEqual(onFullDisk(script), { code: 0, stdout: 'dropped 55' })
})

test('lets a process end at once when it cannot log why', () => {
  const script = `new LogStream().write('the disk is full\\n')
    process.exit(3)`
  assert.deepEqual(onFullDisk(script), { code: 3, stdout: '' })
})

test('keeps the process running when the reader of its log is gone', async () => {
  const script = `const stream = new LogStream()
    process.stdin.on('data', () => stream.write('a line\\n')).on('end', () => process.stdout.write('dropped ' + stream.dropped))`
  const child = spawn(process.execPath, node(script))
  child.stderr.destroy()
  let said = ''
  child.stdout.on('data', (chunk) => {
    said += chunk
  })
  child.stdin.end('now')
  await once(child, 'close')
  assert.match(said, /^dropped [01]$/)
  assert.equal(child.exitCode, 0)
})

test('does not mix the lines of two processes that write to the same pipe', async (t) => {
  const path = join(tempDir(t), 'log')
  execFileSync('mkfifo', [path])
  const pipe = openSync(path, 'r+')
  t.after(() => closeSync(pipe))
  const children = ['a', 'b'].map((letter) => {
    const script = `const stream = new LogStream()
      for (let n = 0; n < 5000; n++) stream.write('${letter}'.repeat(300 + n % 7) + '\\n')
      process.stdout.write('queued')`
    return spawn(process.execPath, node(script), { stdio: ['ignore', 'pipe', pipe] })
  })
  // Both wait for the reader in the middle of what they write.
  for (const { stdout } of children) if (stdout) await once(stdout, 'data')
  const reader = createReadStream(path)
  let lines = ''
  reader.on('data', (chunk) => {
    lines += chunk
  })
  await until(() => lines.split('\n').length > 10_000)
  reader.destroy()
  const all = lines.trimEnd().split('\n')
  assert.deepEqual(
    all.filter((line) => !/^(?:a{300,306}|b{300,306})$/.test(line)),
    [],
  )
})
