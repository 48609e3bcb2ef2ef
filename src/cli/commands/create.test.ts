import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { demoCliOn, testCli } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { parseDotenv } from '../../lib/text/dotenv.ts'

const modeOf = (path: string): number => statSync(path).mode & 0o777

onEveryEngine('svc create', (engine) => {
  test('makes the group main with its tasks; again, nothing changes', async (t) => {
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
    assert.match(again, /^instance demo is there already at /)
    assert.match(again, /\.env: kept as it is\n {2}group main: kept as it is\n/)
    assert.equal(readFileSync(join(cli.root, 'groups/main/PERSONA.md'), 'utf8'), 'mine')
    assert.equal(readFileSync(join(cli.root, '.env'), 'utf8'), env)
    assert.equal(await cli.ok('export demo'), before)
  })
})

test('a new instance has its directories, its keys and its store, for nobody else to read', async (t) => {
  const cli = testCli(t)
  const said = await cli.ok('create demo')
  assert.match(said, new RegExp(`^created instance demo at ${cli.root}\n`))
  const env = parseDotenv(readFileSync(join(cli.root, '.env'), 'utf8'), '.env')
  assert.deepEqual([...env.keys()], ['ASSISTANT_NAME', 'WEB_LISTEN', 'WEB_HOST', 'CHANNEL_SECRET', 'SECRETS_KEY'])
  assert.equal(env.get('ASSISTANT_NAME'), 'demo')
  for (const key of ['CHANNEL_SECRET', 'SECRETS_KEY']) {
    assert.match(env.get(key) ?? '', /^[0-9a-f]{64}$/)
    assert.ok(!said.includes(env.get(key) ?? ''))
  }
  assert.notEqual(env.get('CHANNEL_SECRET'), env.get('SECRETS_KEY'))
  assert.deepEqual(
    ['.env', 'store', 'store/svc.db', 'groups', 'logs', 'web/priv'].map((path) => modeOf(join(cli.root, path))),
    // Of a svc that root started, the agents' own group may enter the workspaces.
    [0o600, 0o700, 0o600, process.getuid?.() === 0 ? 0o710 : 0o700, 0o700, 0o700],
  )
  assert.deepEqual(readdirSync(cli.root).sort(), ['.env', 'chats', 'groups', 'logs', 'store', 'web'])
  assert.match(said, /^next:\n(.*\n)*? {2}svc serve demo/m)
})

test('no default task is due at once', async (t) => {
  const cli = testCli(t)
  const madeAt = Date.now()
  await cli.ok('create demo')
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'), { readOnly: true })
  t.after(() => db.close())
  const tasks = db.prepare('select next_run, status, context_mode from scheduled_tasks').all()
  assert.equal(tasks.length, 5)
  for (const { next_run, status, context_mode } of tasks) {
    assert.deepEqual([status, context_mode], ['active', 'isolated'])
    assert.ok(Date.parse(String(next_run)) > madeAt, String(next_run))
  }
})

test('a product brings its checklist, its skills and its facts', async (t) => {
  const cli = testCli(t)
  const said = await cli.ok('create demo --product support')
  assert.match(said, /^product support: /m)
  assert.match(said, /^skills: triage-ticket, escalate, compact-memories$/m)
  assert.match(said, /^ {2}WEB_HOST +set +\S/m)
  assert.match(said, /^ {2}ANTHROPIC_API_KEY +optional +\S/m)
  assert.ok(existsSync(join(cli.root, 'groups/main/.claude/skills/triage-ticket/SKILL.md')))
  assert.match(await cli.ok('export demo'), /product: support/)
})

test('an unknown product lists the known ones, and nothing is made', async (t) => {
  const cli = testCli(t)
  for (const name of ['nope', '../assistant', '', '.']) {
    const { code, stdout, stderr } = await cli.run(['create', 'demo', '--product', name])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^svc: unknown product ".*"; known: assistant, support\n$/)
  }
  assert.deepEqual(readdirSync(cli.dir), [])
})

test('an .env that is there already keeps what it holds and gets what it lacks', async (t) => {
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
  assert.equal(modeOf(env), 0o600)
  assert.match(await cli.ok('create demo'), /\.env: kept as it is/)
  assert.equal(readFileSync(env, 'utf8'), text)
})

test('keys that the environment has are written down, and an .env that cannot be read stops it before', async (t) => {
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

test('what another create is writing at that moment is no stranger’s file', async (t) => {
  for (const name of ['.tmp-0123456789abcdef', '.env.new-0123456789abcdef']) {
    const cli = testCli(t)
    mkdirSync(cli.root)
    writeFileSync(join(cli.root, name), '')
    assert.match(await cli.ok('create demo'), /^created instance demo/)
  }
})

test('what holds in the environment when it is made is written down', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo', { env: { WEB_LISTEN: '127.0.0.1:9000' } })
  const env = parseDotenv(readFileSync(join(cli.root, '.env'), 'utf8'), '.env')
  assert.deepEqual([env.get('WEB_LISTEN'), env.get('WEB_HOST')], ['127.0.0.1:9000', 'localhost:9000'])
  const bad = await cli.run('create other', { env: { WEB_LISTEN: 'x' } })
  assert.match(bad.stderr, /^svc: WEB_LISTEN in the environment must be/)
  assert.deepEqual(readdirSync(cli.dir), ['svc_demo'])
})

test('the current directory is left alone', async (t) => {
  const cli = testCli(t)
  const [before, here] = [process.cwd(), tempDir(t)]
  process.chdir(here)
  t.after(() => process.chdir(before))
  await cli.ok('create demo')
  await cli.ok('group demo add slack:1 team')
  assert.deepEqual(readdirSync(here), [])
})

test('an instance whose folder was lost gets it back', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo')
  rmSync(join(cli.root, 'groups'), { recursive: true })
  await cli.ok('create demo')
  assert.ok(existsSync(join(cli.root, 'groups/main/PERSONA.md')))
})

test('create again brings no files of another product, and says that the one asked for is ignored', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo --product support')
  const before = readdirSync(join(cli.root, 'groups/main/facts'))
  assert.match(await cli.ok('create demo'), /\nproduct support: /)
  const { stderr } = await cli.run('create demo --product assistant')
  assert.equal(stderr, 'warning: --product is ignored: main is of the product support already\n')
  assert.deepEqual(readdirSync(join(cli.root, 'groups/main/facts')), before)
})

test('create where no directory can be made ends, and says so', { skip: !existsSync('/proc/self') }, async (t) => {
  const { code, stderr } = await testCli(t).run('create demo', { env: { SVC_DATA_DIR: '/proc/nope' } })
  assert.deepEqual([code, stderr], [1, 'svc: cannot create /proc/nope: it does not exist\n'])
})
