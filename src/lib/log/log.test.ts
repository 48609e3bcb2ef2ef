import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { type LogOptions, logRequest, openLog, openRequestLog, type RequestLogEntry, redactPath } from './log.ts'

const TOKEN = 'Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE'
const PROOF = `~${TOKEN}.${TOKEN}`
const short = (text: string): string => hash('sha256', text, 'hex').slice(0, 8)

const PATHS: Record<string, readonly [path: string, shown: string]> = {
  'a chat link': [`/chat/${TOKEN}/`, `/chat/${short(TOKEN)}/`],
  'a stream of a chat link': [`/chat/${TOKEN}/0198/sse`, `/chat/${short(TOKEN)}/0198/sse`],
  'a hook link': [`/hook/${TOKEN}`, `/hook/${short(TOKEN)}`],
  'an invite': [`/invite/${TOKEN}`, `/invite/${short(TOKEN)}`],
  'a token of the wrong length': ['/hook/abc', `/hook/${short('abc')}`],
  'a proof in place of a token': [`/chat/${PROOF}/`, `/chat/${short(PROOF)}/`],
  'an encoded token': [`/hook/%5A${TOKEN.slice(1)}`, `/hook/${short(TOKEN)}`],
  'an encoded word before it': [`/h%6Fok/${TOKEN}`, `/h%6Fok/${short(TOKEN)}`],
  'another case': [`/HOOK/${TOKEN}`, `/HOOK/${short(TOKEN)}`],
  'a doubled slash': [`/chat//${TOKEN}`, `/chat//${short(TOKEN)}`],
  'a token below something else': [`/x/hook/${TOKEN}`, `/x/hook/${short(TOKEN)}`],
  'a token where none belongs': [`/v1/invites/${TOKEN}`, `/v1/invites/${short(TOKEN)}`],
  'an encoded token where none belongs': [`/v1/x/%5A${TOKEN.slice(1)}`, `/v1/x/${short(TOKEN)}`],
  'a bad escape': ['/v1/routes/%ZZ', '/v1/routes/%ZZ'],
  'a plain path': ['/v1/route_tokens/web:team', '/v1/route_tokens/web:team'],
  'the root': ['/', '/'],
  'the word alone': ['/chat/', '/chat/'],
}

for (const [what, [path, shown]] of Object.entries(PATHS)) {
  test(`redacts tokens in ${what}`, () => assert.equal(redactPath(path), shown))
}

async function lines(options: LogOptions, ...answers: Partial<RequestLogEntry>[]): Promise<Record<string, unknown>[]> {
  const written: string[] = []
  const log = await openLog({ ...options, pretty: false, to: { write: (line) => written.push(line) } })
  const usual: RequestLogEntry = { method: 'GET', path: '/x', status: 200, ms: 1.26, request: 'r' }
  for (const answer of answers) logRequest(log.child({ daemon: 'routd' }), { ...usual, ...answer })
  return written.map((line) => JSON.parse(line))
}

test('logs a request in one line', async () => {
  const [line, ...more] = await lines({}, { caller: 'github:1', remote: '127.0.0.1' })
  assert.deepEqual(more, [])
  const { time, ...rest } = line ?? {}
  assert.match(String(time), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  assert.deepEqual(rest, {
    level: 'info',
    daemon: 'routd',
    method: 'GET',
    path: '/x',
    status: 200,
    ms: 1.3,
    request: 'r',
    caller: 'github:1',
    remote: '127.0.0.1',
  })
})

test('logs the reason of a refusal with tokens redacted', async () => {
  const [line] = await lines(
    {},
    { status: 404, reason: `there is no invite ${TOKEN}, nor eyJh.eyJz.c2ln${'x'.repeat(40)}` },
  )
  assert.equal(line?.reason, `there is no invite ${short(TOKEN)}, nor <bearer>`)
})

test('never writes a credential that a log call contains', async () => {
  const written: string[] = []
  const log = await openLog({ pretty: false, to: { write: (line) => written.push(line) } })
  log.warn({ detail: `said\n${TOKEN}`, err: new Error(`no ${TOKEN}`) }, `see /chat/${TOKEN}/`)
  log.child({ link: TOKEN }).info('said')
  assert.deepEqual(
    written.map((line) => line.includes(TOKEN)),
    [false, false],
  )
  const { detail, msg, err } = JSON.parse(written[0] ?? '')
  assert.deepEqual(
    [detail, msg, err.message],
    [`said\n${short(TOKEN)}`, `see /chat/${short(TOKEN)}/`, `no ${short(TOKEN)}`],
  )
})

test('cuts a long path', async () => {
  const [line] = await lines({}, { path: `/${'a/'.repeat(4000)}` })
  assert.equal(String(line?.path).length, 256)
})

test('does not log requests at level warn', async () => {
  assert.deepEqual(await lines({ level: 'warn' }, {}), [])
})

test('writes all lines to stderr even if the process ends at once', () => {
  const module = JSON.stringify(new URL('./log.ts', import.meta.url).href)
  const script = `const log = await (await import(${module})).openLog({ pretty: process.argv[1] === 'pretty' })
    for (let n = 0; n < 1000; n++) log.info({ n }, 'said')
    process.exit(0)`
  const run = (how: string) =>
    spawnSync(process.execPath, ['--input-type=module', '--eval', script, how], { encoding: 'utf8' })
  const plain = run('plain')
  assert.equal(plain.stdout, '')
  assert.equal(plain.stderr.trimEnd().split('\n').length, 1000)
  assert.equal(JSON.parse(plain.stderr.split('\n')[999] ?? '').n, 999)
  assert.match(run('pretty').stderr, /INFO.*said.*999/)
})

/** The same requests through the batching log; each write is one piece. */
async function quickLines(options: LogOptions, ...answers: Partial<RequestLogEntry>[]): Promise<string[]> {
  const pieces: string[] = []
  const log = await openLog({ ...options, pretty: false, to: { write: (text) => pieces.push(text) } })
  const { write } = openRequestLog(log.child({ daemon: 'routd' }))
  const usual: RequestLogEntry = { method: 'GET', path: '/x', status: 200, ms: 1.26, request: 'r' }
  for (const answer of answers) write({ ...usual, ...answer })
  assert.deepEqual(pieces, [])
  await new Promise(setImmediate)
  assert.ok(pieces.length <= 1)
  return pieces.join('').split('\n').filter(Boolean)
}

test('logs batched requests with the same lines, once per event-loop turn', async () => {
  const answers: Partial<RequestLogEntry>[] = [
    {},
    { caller: 'github:1', remote: '127.0.0.1' },
    { method: 'PO"ST', path: '/a"b\n\\', status: 400, reason: 'a "reason"\nin two lines' },
    { reason: `the token ${TOKEN} is none`, status: 401 },
    { path: `/${'x'.repeat(1000)}`, reason: 'y'.repeat(1000), ms: 0 },
  ]
  const plain = (line: Record<string, unknown>): unknown => ({ ...line, time: '' })
  const quick = (await quickLines({}, ...answers)).map((line) => JSON.parse(line))
  assert.deepEqual(quick.map(plain), (await lines({}, ...answers)).map(plain))
  for (const { time } of quick) assert.match(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  assert.ok(!JSON.stringify(quick).includes(TOKEN))
})

test('formats nothing above the level', async () => {
  assert.deepEqual(await quickLines({ level: 'warn' }, {}), [])
})
