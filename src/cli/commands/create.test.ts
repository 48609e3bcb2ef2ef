import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { demoCliOn, testCli } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { parseDotenv } from '../../lib/text/dotenv.ts'

const readMode = (path: string): number => statSync(path).mode & 0o777

onEveryEngine('svc create', (engine) => {
  test('creates the group main with its tasks, and changes nothing the second time', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal(await cli.ok('group demo list'), 'main\tmain\n')
    const keys = [...parseDotenv(readFileSync(join(cli.root, '.env'), 'utf8'), '.env').keys()]
    for (const key of ['ASSISTANT_NAME', 'WEB_LISTEN', 'WEB_HOST', 'CHANNEL_SECRET', 'SECRETS_KEY'])
      assert.ok(keys.includes(key), `${key} is missing beside ${keys}`)
    const before = await cli.ok('export demo')
    assert.equal(before.match(/id: main-mem-\d/g)?.length, 5)
    writeFileSync(join(cli.root, 'groups/main/PERSONA.md'), 'mine')
    const env = readFileSync(join(cli.root, '.env'), 'utf8')
    const again = await cli.ok('create demo')
    assert.match(again, /^instance demo already exists at /)
    assert.match(again, /\.env: unchanged\n {2}group main: unchanged\n/)
    assert.equal(readFileSync(join(cli.root, 'groups/main/PERSONA.md'), 'utf8'), 'mine')
    assert.equal(readFileSync(join(cli.root, '.env'), 'utf8'), env)
    assert.equal(await cli.ok('export demo'), before)
  })
})

test('creates directories, keys and store that other users cannot read', async (t) => {
  const cli = testCli(t)
  const output = await cli.ok('create demo')
  assert.match(output, new RegExp(`^created instance demo at ${cli.root}\n`))
  const env = parseDotenv(readFileSync(join(cli.root, '.env'), 'utf8'), '.env')
  assert.deepEqual([...env.keys()], ['ASSISTANT_NAME', 'WEB_LISTEN', 'WEB_HOST', 'CHANNEL_SECRET', 'SECRETS_KEY'])
  assert.equal(env.get('ASSISTANT_NAME'), 'demo')
  for (const key of ['CHANNEL_SECRET', 'SECRETS_KEY']) {
    assert.match(env.get(key) ?? '', /^[0-9a-f]{64}$/)
    assert.ok(!output.includes(env.get(key) ?? ''))
  }
  assert.notEqual(env.get('CHANNEL_SECRET'), env.get('SECRETS_KEY'))
  assert.deepEqual(
    ['.env', 'store', 'store/svc.db', 'groups', 'logs', 'web/priv', 'ipc', 'outbox', 'speech'].map((path) =>
      readMode(join(cli.root, path)),
    ),
    // If root runs svc, the group of the agents may enter the workspaces.
    [0o600, 0o700, 0o600, process.getuid?.() === 0 ? 0o710 : 0o700, 0o700, 0o700, 0o700, 0o700, 0o700],
  )
  const directories = [
    'cells',
    'channels',
    'chats',
    'files',
    'groups',
    'ipc',
    'logs',
    'outbox',
    'skills',
    'speech',
    'store',
    'web',
  ]
  assert.deepEqual(readdirSync(cli.root).sort(), ['.env', ...directories])
  assert.match(output, /^next:\n(.*\n)*? {2}svc serve demo/m)
})

test('creates no default task that is due at once', async (t) => {
  const cli = testCli(t)
  const createdAt = Date.now()
  await cli.ok('create demo')
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'), { readOnly: true })
  t.after(() => db.close())
  const tasks = db.prepare('select next_run, status, context_mode from scheduled_tasks').all()
  assert.equal(tasks.length, 5)
  for (const { next_run, status, context_mode } of tasks) {
    assert.deepEqual([status, context_mode], ['active', 'isolated'])
    assert.ok(Date.parse(String(next_run)) > createdAt, String(next_run))
  }
})

test('sets up a product with its checklist, skills and facts', async (t) => {
  const cli = testCli(t)
  const output = await cli.ok('create demo --product support')
  assert.match(output, /^product support: /m)
  assert.match(output, /^skills: triage-ticket, escalate, compact-memories$/m)
  assert.match(output, /^ {2}WEB_HOST +set +\S/m)
  assert.match(output, /^ {2}ANTHROPIC_API_KEY +optional +\S/m)
  assert.ok(existsSync(join(cli.root, 'groups/main/.claude/skills/triage-ticket/SKILL.md')))
  assert.match(await cli.ok('export demo'), /product: support/)
})

test('refuses an unknown product, lists the known ones and creates nothing', async (t) => {
  const cli = testCli(t)
  for (const name of ['nope', '../assistant', '', '.']) {
    const { code, stdout, stderr } = await cli.run(['create', 'demo', '--product', name])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^svc: unknown product ".*"; known: assistant, support\n$/)
  }
  assert.deepEqual(readdirSync(cli.dir), [])
})

test('keeps the entries of an existing .env and adds the missing ones', async (t) => {
  const cli = testCli(t)
  mkdirSync(cli.root)
  const env = join(cli.root, '.env')
  const begun = '# mine\nSECRETS_KEY=mine\nWEB_LISTEN=127.0.0.1:9000'
  writeFileSync(env, begun, { mode: 0o640 })
  assert.match(await cli.ok('create demo'), /\.env: added ASSISTANT_NAME, WEB_HOST, CHANNEL_SECRET\n/)
  const text = readFileSync(env, 'utf8')
  assert.ok(text.startsWith(`${begun}\nASSISTANT_NAME=demo\nWEB_HOST=localhost:9000\nCHANNEL_SECRET=`), text)
  assert.match(parseDotenv(text, '.env').get('CHANNEL_SECRET') ?? '', /^[0-9a-f]{64}$/)
  assert.equal(parseDotenv(text, '.env').get('SECRETS_KEY'), 'mine')
  assert.equal(readMode(env), 0o600)
  assert.match(await cli.ok('create demo'), /\.env: unchanged/)
  assert.equal(readFileSync(env, 'utf8'), text)
})

test('copies keys of the environment to .env, and refuses an invalid .env before any change', async (t) => {
  const cli = testCli(t)
  mkdirSync(cli.root)
  const env = join(cli.root, '.env')
  writeFileSync(env, 'no setting\n')
  const bad = await cli.run('create demo')
  assert.deepEqual([bad.code, bad.stdout], [1, ''])
  assert.match(bad.stderr, /\.env line 1 must look like KEY=value\n/)
  assert.deepEqual([readFileSync(env, 'utf8'), readdirSync(cli.root)], ['no setting\n', ['.env']])
  writeFileSync(env, '')
  await cli.ok('create demo', { env: { SECRETS_KEY: 'outside' } })
  assert.equal(parseDotenv(readFileSync(env, 'utf8'), '.env').get('SECRETS_KEY'), 'outside')
})

test('ignores temporary files of a concurrent create', async (t) => {
  for (const name of ['.tmp-0123456789abcdef', '.env.new-0123456789abcdef']) {
    const cli = testCli(t)
    mkdirSync(cli.root)
    writeFileSync(join(cli.root, name), '')
    assert.match(await cli.ok('create demo'), /^created instance demo/)
  }
})

test('copies addresses of the environment to .env', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo', { env: { WEB_LISTEN: '127.0.0.1:9000' } })
  const env = parseDotenv(readFileSync(join(cli.root, '.env'), 'utf8'), '.env')
  assert.deepEqual([env.get('WEB_LISTEN'), env.get('WEB_HOST')], ['127.0.0.1:9000', 'localhost:9000'])
  const bad = await cli.run('create other', { env: { WEB_LISTEN: 'x' } })
  assert.match(bad.stderr, /^svc: WEB_LISTEN in the environment must be/)
  assert.deepEqual(readdirSync(cli.dir), ['svc_demo'])
})

test('writes nothing to the current directory', async (t) => {
  const cli = testCli(t)
  const [before, here] = [process.cwd(), tempDir(t)]
  process.chdir(here)
  t.after(() => process.chdir(before))
  await cli.ok('create demo')
  await cli.ok('group demo add slack:1 team')
  assert.deepEqual(readdirSync(here), [])
})

test('recreates a missing folder of an existing instance', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo')
  rmSync(join(cli.root, 'groups'), { recursive: true })
  await cli.ok('create demo')
  assert.ok(existsSync(join(cli.root, 'groups/main/PERSONA.md')))
})

test('adds no files of another product to an existing instance, and warns that --product is ignored', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo --product support')
  const before = readdirSync(join(cli.root, 'groups/main/facts'))
  assert.match(await cli.ok('create demo'), /\nproduct support: /)
  const { stderr } = await cli.run('create demo --product assistant')
  assert.equal(stderr, 'warning: --product is ignored: main already has the product support\n')
  assert.deepEqual(readdirSync(join(cli.root, 'groups/main/facts')), before)
})

test('reports that no directory can be created', { skip: !existsSync('/proc/self') }, async (t) => {
  const { code, stderr } = await testCli(t).run('create demo', { env: { SVC_DATA_DIR: '/proc/nope' } })
  assert.deepEqual([code, stderr], [1, 'svc: cannot create /proc/nope: it does not exist\n'])
})
