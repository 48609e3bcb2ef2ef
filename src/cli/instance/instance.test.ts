import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, test } from 'node:test'
import { type Cli, demoCli, testCli } from '../../../test/support/cli.ts'
import { writeAtomic } from '../../lib/files/atomic-file.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance, sourcesReader } from './instance.ts'

suite('refuses an invalid name and creates nothing', () => {
  for (const name of ['', '..', '.', 'a/b', 'a\nb', 'ä', 'x'.repeat(300), 'a b'])
    test(JSON.stringify(name.slice(0, 10)), async (t) => {
      const cli = testCli(t)
      for (const words of [
        ['create', name],
        ['group', name, 'list'],
        ['doctor', name],
      ]) {
        const { code, stdout, stderr } = await cli.run(words)
        assert.deepEqual([code, stdout], [1, ''])
        assert.match(stderr, /must be 1 to 32 letters, digits, "_" or "-"/)
      }
      assert.deepEqual(readdirSync(cli.dir), [])
    })
  test('-x, which looks like a flag', async (t) => {
    const cli = testCli(t)
    for (const words of [
      ['create', '-x'],
      ['create', '--', '-x'],
    ])
      assert.equal((await cli.run(words)).code, 1)
    assert.deepEqual(readdirSync(cli.dir), [])
  })
})

suite('refuses or finds a data directory', () => {
  const list = async (cli: Cli): Promise<string> => {
    const { code, stdout, stderr } = await cli.run('group demo list')
    assert.deepEqual([code, stdout], [1, ''])
    return stderr
  }
  test('that is missing', async (t) => {
    const cli = testCli(t)
    assert.equal(
      await list(cli),
      `svc: there is no instance demo: ${cli.root} does not exist\nhint: svc create demo creates it\n`,
    )
    assert.deepEqual(readdirSync(cli.dir), [])
  })
  test('that is missing, with an instance of a similar name', async (t) => {
    const cli = await demoCli(t)
    for (const line of ['group dmeo list', 'doctor demoo', 'serve deno', 'send Demo main hi']) {
      const { stdout, stderr } = await cli.run(line)
      const name = line.split(' ')[1]
      assert.ok((stdout + stderr).includes(`there is no instance ${name} in ${cli.dir}; did you mean demo?`), stderr)
      assert.doesNotMatch(stdout + stderr, /svc create/)
    }
    assert.match((await cli.run('group acme list')).stderr, /hint: svc create acme creates it$/m)
  })
  test('that is missing while SVC_DATA_DIR is not set', async (t) => {
    const cli = testCli(t)
    const { code, stderr } = await cli.run('group demo list', { env: { SVC_DATA_DIR: '', PREFIX: cli.dir } })
    assert.equal(code, 1)
    assert.equal(
      stderr,
      `svc: there is no instance demo: ${cli.dir}/data/svc_demo does not exist\n` +
        `hint: SVC_DATA_DIR is not set, so svc looked in ${cli.dir}/data; set it to the directory of your instances, or create one there with svc create demo\n`,
    )
    assert.match(
      (await cli.run('list', { env: { SVC_DATA_DIR: '', PREFIX: cli.dir } })).stderr,
      /^no instances in \S+\/data; .*\nSVC_DATA_DIR is not set; /,
    )
  })
  test('that is a file', async (t) => {
    const cli = testCli(t)
    writeFileSync(cli.root, 'mine')
    assert.match(await list(cli), /cannot use .*svc_demo: it is not a directory/)
    assert.equal((await cli.run('create demo')).code, 1)
    assert.equal(readFileSync(cli.root, 'utf8'), 'mine')
  })
  test('below a file', async (t) => {
    const cli = testCli(t)
    writeFileSync(join(cli.dir, 'file'), '')
    const env = { SVC_DATA_DIR: join(cli.dir, 'file') }
    for (const line of ['group demo list', 'create demo']) {
      const { code, stderr } = await cli.run(line, { env })
      assert.equal(code, 1)
      assert.match(stderr, /a part of the path is not a directory/)
    }
  })
  test('whose links form a loop', async (t) => {
    const cli = testCli(t)
    symlinkSync(cli.root, cli.root)
    assert.match(await list(cli), /its symbolic links form a loop/)
    assert.match((await cli.run('create demo')).stderr, /its symbolic links form a loop/)
  })
  test('that contains other files', async (t) => {
    const cli = testCli(t)
    mkdirSync(cli.root)
    writeFileSync(join(cli.root, 'thesis.tex'), '')
    assert.match(await list(cli), /there is no store at .*svc\.db/)
    assert.match((await cli.run('create demo')).stderr, /contains files but no svc instance; nothing was changed/)
    assert.deepEqual(readdirSync(cli.root), ['thesis.tex'])
  })
  test('below PREFIX while SVC_DATA_DIR is not set', async (t) => {
    const cli = testCli(t)
    const env = { SVC_DATA_DIR: '', PREFIX: cli.dir }
    await cli.ok('create demo', { env })
    assert.ok(existsSync(join(cli.dir, 'data/svc_demo/.env')))
  })
})

suite('refuses with one sentence, and does not change, a store that', () => {
  const damages: Record<string, [(store: string) => void, RegExp]> = {
    'is missing': [(store) => rmSync(store), /there is no store at/],
    'has no bytes': [(store) => truncateSync(store), /is empty, not a store of svc/],
    'is random bytes': [(store) => writeFileSync(store, 'x'.repeat(8192)), /is not a store of svc, or it is damaged/],
    'is cut off': [(store) => truncateSync(store, 8192), /is damaged/],
    'belongs to another program': [
      (store) => {
        rmSync(store)
        const db = new DatabaseSync(store)
        db.exec('create table notes (text)')
        db.close()
      },
      /is another program's database/,
    ],
    'was written by a newer svc': [
      (store) => {
        const db = new DatabaseSync(store)
        db.exec(`insert into migrations values ('groups', 99, '2030-01-01T00:00:00.000Z')`)
        db.close()
      },
      /was written by a newer svc than this one/,
    ],
  }
  for (const [what, [damage, sentence]] of Object.entries(damages))
    test(what, async (t) => {
      const cli = await demoCli(t)
      const store = join(cli.root, 'store/svc.db')
      damage(store)
      const before = fingerprint(store)
      for (const line of ['group demo list', 'gate demo add team 5', 'export demo', 'token demo issue chat main']) {
        const { code, stdout, stderr } = await cli.run(line)
        assert.deepEqual([code, stdout], [1, ''], line)
        assert.match(stderr, sentence)
        assert.match(stderr, /^svc: .*\n(hint: .*\n)?$/, 'one sentence')
      }
      assert.equal(fingerprint(store), before)
    })

  test('is on a server that does not answer', async (t) => {
    const cli = await demoCli(t)
    const env = join(cli.root, '.env')
    writeFileSync(env, `${readFileSync(env, 'utf8')}DATABASE_URL=postgres://u:s3cret@127.0.0.1:1/db\n`)
    const { code, stderr } = await cli.run('group demo list')
    assert.equal(code, 1)
    assert.match(stderr, /^svc: PostgreSQL cannot be reached \(ECONNREFUSED\)\nhint: check DATABASE_URL/)
    assert.doesNotMatch(stderr, /s3cret/)
  })
})

function fingerprint(path: string): string {
  return existsSync(path) ? createHash('sha256').update(readFileSync(path)).digest('hex') : 'none'
}

suite('the .env of an instance', () => {
  const withEnv = async (t: Parameters<typeof demoCli>[0], change: (text: string) => string, mode = 0o600) => {
    const cli = await demoCli(t)
    const path = join(cli.root, '.env')
    writeFileSync(path, change(readFileSync(path, 'utf8')))
    chmodSync(path, mode)
    return cli
  }
  const minted = /^url: (\S+)\/chat\//m

  test('overrides the environment, which overrides the default', async (t) => {
    const cli = await withEnv(t, (text) => text.replace(/^WEB_HOST=.*$/m, 'WEB_HOST=file.example'))
    const env = { WEB_HOST: 'shell.example' }
    assert.equal(minted.exec(await cli.ok('token demo issue chat main', { env }))?.[1], 'https://file.example')
    rmSync(join(cli.root, '.env'))
    assert.equal(minted.exec(await cli.ok('token demo issue chat main', { env }))?.[1], 'https://shell.example')
    assert.equal(minted.exec(await cli.ok('token demo issue chat main'))?.[1], 'http://localhost:8080')
  })
  test('decides with WEB_LISTEN where links lead, unless WEB_HOST names another place', async (t) => {
    const listens: Record<string, string> = {
      '127.0.0.1:9001': 'http://localhost:9001',
      '0.0.0.0:9001': 'http://localhost:9001',
      '192.0.2.7:9001': 'http://192.0.2.7:9001',
      '127.0.0.1:0': 'http://localhost:8080',
    }
    const cli = await demoCli(t)
    const path = join(cli.root, '.env')
    const created = readFileSync(path, 'utf8')
    for (const [listen, origin] of Object.entries(listens)) {
      writeFileSync(path, created.replace(/^WEB_LISTEN=.*$/m, `WEB_LISTEN=${listen}`))
      assert.equal(minted.exec(await cli.ok('token demo issue chat main'))?.[1], origin)
      assert.ok((await cli.ok('login demo local:ada')).startsWith(`${origin}/auth/link/`))
    }
    writeFileSync(path, created.replace(/^WEB_HOST=.*$/m, 'WEB_HOST=localhost:8443'))
    assert.equal(minted.exec(await cli.ok('token demo issue chat main'))?.[1], 'http://localhost:8443')
  })
  test('causes a warning about an unknown key, with the closest known one', async (t) => {
    const cli = await withEnv(
      t,
      (text) => `${text}WEB_HOTS=x\nANTHROPIC_API_KEY=asked for by a product\nFOO_BAR_BAZ=1\n`,
    )
    const { code, stdout, stderr } = await cli.run('group demo list')
    assert.deepEqual([code, stdout], [0, 'main\tmain\n'])
    assert.match(
      stderr,
      /^warning: \S+ has the unknown key WEB_HOTS; did you mean WEB_HOST\?\nwarning: \S+ has the unknown key FOO_BAR_BAZ\n$/,
    )
  })
  test('stops every command if a value is invalid, and the error names it', async (t) => {
    const cli = await withEnv(t, (text) => text.replace(/^WEB_LISTEN=.*$/m, 'WEB_LISTEN=nowhere'))
    for (const line of ['group demo list', 'serve demo', 'create demo']) {
      const { code, stderr } = await cli.run(line)
      assert.equal(code, 1)
      assert.match(stderr, /^svc: WEB_LISTEN in \S+\.env must be host:port such as .*, not "nowhere"\n$/)
    }
  })
  test('sets the users of agents, who are never root', { skip: process.getuid?.() !== 0 }, async (t) => {
    const cli = await withEnv(t, (text) => `${text}AGENT_UID=60123\nAGENT_UIDS=1\n`)
    await cli.ok('group demo add slack:1 team')
    const ownersOf = (...names: string[]) => names.map((name) => statSync(join(cli.root, 'groups', name)).uid)
    // main was created before the settings; svc serve gives it to its agents.
    assert.deepEqual(ownersOf('main', 'team', 'team/PERSONA.md'), [0, 60_123, 60_123])
    // Agents are the owner of the data directory, not the caller.
    chownSync(cli.root, 1234, 1234)
    await cli.ok('group demo add slack:2 theirs')
    await cli.ok('group demo add slack:3 team/child')
    assert.deepEqual(ownersOf('theirs', 'theirs/PERSONA.md', 'team/child'), [1234, 1234, 60_123])
    writeFileSync(join(cli.root, '.env'), 'AGENT_UID=0\n')
    const { code, stderr } = await cli.run('group demo list')
    assert.equal(code, 1)
    assert.match(stderr, /^svc: AGENT_UID must not be 0: agents never run as root\n/)
  })
  test('with an invalid secret is refused without printing it', async (t) => {
    const cli = await withEnv(t, (text) => `${text}DATABASE_URL=s3cret\n`)
    const { code, stderr } = await cli.run('group demo list')
    assert.equal(code, 1)
    assert.match(stderr, /^svc: DATABASE_URL in \S+ must be an absolute URL/)
    assert.doesNotMatch(stderr, /s3cret/)
  })
  test('with an invalid line is refused by line number, without its content', async (t) => {
    const cli = await withEnv(t, (text) => `${text}\ns3cret\n`)
    const { code, stderr } = await cli.run('group demo list')
    assert.equal(code, 1)
    assert.match(stderr, /\.env line 7 must look like KEY=value\n$/)
  })
  test('that every user can read causes a warning', async (t) => {
    const cli = await withEnv(t, (text) => text, 0o644)
    const { code, stderr } = await cli.run('group demo list')
    assert.equal(code, 0)
    assert.match(
      stderr,
      /^warning: \S+\.env contains secrets and every user of this machine can read it: chmod 600 \S+\n$/,
    )
  })
  test('that is a directory is refused', async (t) => {
    const cli = await demoCli(t)
    rmSync(join(cli.root, '.env'))
    mkdirSync(join(cli.root, '.env'))
    assert.match((await cli.run('group demo list')).stderr, /^svc: cannot read \S+\.env: it is a directory\n$/)
  })
  test('with an unknown time zone is refused', async (t) => {
    const cli = await withEnv(t, (text) => `${text}TZ=Europe/Atlantis\n`)
    assert.match((await cli.run('group demo list')).stderr, /^svc: TZ must be a time zone/)
  })
})

test('works with a clock before 1970 or after 2038', async (t) => {
  for (const year of [1969, 2040]) {
    const cli = testCli(t)
    const clock = { now: () => Date.UTC(year, 5, 1) }
    await cli.ok('create demo', { clock })
    await cli.ok('group demo grant github:1 team', { clock })
    assert.match(await cli.ok('group demo grants'), new RegExp(`\t${year}-06-01T00:00:00.000Z\n`))
  }
})

test('returns the same sources until .env is changed, replaced, deleted or created', async (t) => {
  const cli = await demoCli(t)
  const environment = sourceOf('the environment', new Map([['SVC_DATA_DIR', cli.dir]]))
  const read = sourcesReader(await findInstance('demo', environment), environment)
  const env = join(cli.root, '.env')
  const modelNow = async (): Promise<string | undefined> => (await read())[0]?.get('OPENAI_MODEL')
  const first = await read()
  assert.equal(await read(), first)
  writeFileSync(env, 'OPENAI_MODEL=one\n', { flag: 'a' })
  assert.equal(await modelNow(), 'one')
  await writeAtomic(env, 'OPENAI_MODEL=two\n', 0o600)
  assert.equal(await modelNow(), 'two')
  rmSync(env)
  assert.equal(await modelNow(), undefined)
  writeFileSync(env, 'OPENAI_MODEL=three\n')
  assert.equal(await modelNow(), 'three')
})
