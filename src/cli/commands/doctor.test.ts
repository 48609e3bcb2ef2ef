import assert from 'node:assert/strict'
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, test } from 'node:test'
import { type Cli, demoCli, demoCliOn, testCli } from '../../../test/support/cli.ts'
import { fakeClock } from '../../../test/support/clock.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'

interface Finding {
  readonly check: string
  readonly status: 'ok' | 'note' | 'wrong'
  readonly detail: string
  readonly next?: string
}

async function examine(cli: Cli): Promise<{ code: number; wrong: Finding[]; all: Finding[] }> {
  const { code, stdout } = await cli.run('doctor demo --json')
  // Whether cells work is the machine's matter, and has a test of its own.
  const all = (JSON.parse(stdout) as Finding[]).filter(({ check }) => check !== 'agents')
  return { code, wrong: all.filter(({ status }) => status === 'wrong'), all }
}

onEveryEngine('svc doctor', (engine) => {
  test('a new instance is well, and lacks an operator', async (t) => {
    const cli = await demoCliOn(t, engine)
    const { code, all } = await examine(cli)
    assert.equal(code, 0)
    assert.deepEqual(
      all.filter(({ status }) => status !== 'ok').map(({ check, next }) => [check, next]),
      [['operators', "svc group demo grant <provider>:<id> '**'"]],
    )
    await cli.ok('group demo grant github:1 **')
    const said = await cli.run('doctor demo', { env: { SANDBOX: 'none' } })
    assert.equal(said.code, 0)
    assert.deepEqual(said.stdout.match(/^[^✓\s].*?:/gm), ['! agents:'])
  })

  test('what a removed group had is named, because a new one of its name would have it', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('network demo allow team x.example')
    await cli.ok('group demo grant folder:team team')
    await cli.run('secret demo set team K --value -', { stdin: 'v' })
    const found = async () => (await examine(cli)).all.find(({ check }) => check === 'leftovers')
    assert.equal((await found())?.status, 'ok')
    await cli.ok('group demo rm team')
    const { status, detail } = (await found()) ?? {}
    assert.equal(status, 'note')
    assert.equal(
      detail,
      ['grants', 'memberships', 'network rules', 'secrets']
        .map((what) => `${what} of team, which is no group`)
        .join('; '),
    )
  })

  test('what a removed group leaves behind is found', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('group demo rm team')
    const { code, wrong } = await examine(cli)
    assert.equal(code, 1)
    assert.deepEqual(wrong.map(({ check }) => check).sort(), ['routes', 'tasks'])
    const { stdout } = await cli.run('doctor demo')
    assert.match(stdout, /^✗ routes: route \d+ leads to team, which is no group\n {4}→ svc export demo/m)
  })
})

test('a quota that is nearly used up is noted from four fifths on', async (t) => {
  const cli = await demoCli(t)
  writeFileSync(join(cli.root, '.env'), 'LINK_QUOTA=1000\n', { flag: 'a' })
  await cli.ok('token demo issue chat main')
  const found = async (bytes: number) => {
    const db = new DatabaseSync(join(cli.root, 'store/svc.db'))
    db.exec(`insert or replace into storage_use (scope, name, bytes) values ('chat', 'web:main', ${bytes})`)
    db.close()
    return (await examine(cli)).all.find(({ check }) => check === 'storage')
  }
  assert.equal((await found(799))?.status, 'ok')
  const { status, detail, next } = (await found(800)) ?? {}
  assert.deepEqual(
    [status, detail, next],
    ['note', 'the chat web:main has used 80 % of LINK_QUOTA', 'raise LINK_QUOTA in .env and restart svc'],
  )
  assert.equal((await found(999))?.status, 'note')
  assert.equal((await found(1000))?.status, 'wrong')
  const listed = JSON.parse(await cli.ok('token demo list main --json'))
  assert.equal(listed[0].stored_bytes, 1000)
})

suite('svc doctor finds', () => {
  const open = (cli: Cli): DatabaseSync => new DatabaseSync(join(cli.root, 'store/svc.db'))
  const env = (cli: Cli): string => join(cli.root, '.env')
  const faults: Record<string, [(cli: Cli) => void | Promise<void>, string, RegExp, RegExp]> = {
    'an instance that is missing': [
      (cli) => rmSync(cli.root, { recursive: true }),
      'directory',
      /does not exist/,
      /svc create demo/,
    ],
    'workspaces that others read': [
      (cli) => chmodSync(join(cli.root, 'groups'), 0o755),
      'privacy',
      /^other users of this machine can read \S+\/groups$/,
      /^chmod 700 \S+\/groups$/,
    ],
    'pages behind a login that others read': [
      (cli) => chmodSync(join(cli.root, 'web/priv'), 0o701),
      'privacy',
      /can read \S+\/web\/priv$/,
      /^chmod 700 \S+\/web\/priv$/,
    ],
    'an .env that others read': [(cli) => chmodSync(env(cli), 0o640), '.env', /mode 640/, /^chmod 600 /],
    'a bad value of a daemon': [
      (cli) => writeFileSync(env(cli), 'ROUTD_LISTEN=x\n', { flag: 'a' }),
      'settings',
      /ROUTD_LISTEN in \S+ must be host:port/,
      /^$/,
    ],
    'a bad quota': [
      (cli) => writeFileSync(env(cli), 'LINK_QUOTA=lots\n', { flag: 'a' }),
      'settings',
      /LINK_QUOTA in \S+ must be a number of bytes such as 1073741824, 512MiB or 20GB, or 0, not "lots"/,
      /^$/,
    ],
    'a folder whose storage is full': [
      (cli) => {
        writeFileSync(env(cli), 'FOLDER_QUOTA=1000\n', { flag: 'a' })
        open(cli).exec(`insert into storage_use (scope, name, bytes) values ('folder', 'main', 1000)`)
      },
      'storage',
      /^the folder main has used 100 % of FOLDER_QUOTA$/,
      /^raise FOLDER_QUOTA in \.env and restart svc$/,
    ],
    'a store that is missing': [(cli) => rmSync(join(cli.root, 'store/svc.db')), 'store', /there is no store/, /^$/],
    'a store that is damaged': [
      (cli) => {
        const bytes = readFileSync(join(cli.root, 'store/svc.db'))
        // Pages in the middle, behind the header and the schema.
        bytes.fill(0xff, bytes.length / 2, bytes.length - 4096)
        writeFileSync(join(cli.root, 'store/svc.db'), bytes)
      },
      'store',
      /is damaged/,
      /backup/,
    ],
    'a schema that is behind': [
      (cli) => {
        const db = open(cli)
        db.exec(`delete from migrations where name = 'invites'`)
        db.close()
      },
      'schema',
      /2 steps behind/,
      /svc group demo list/,
    ],
    'grants that can never match': [
      (cli) => {
        const db = open(cli)
        db.exec(`insert into acl values ('alice', 'admin', 'team', 'allow', '', '', null, '2026-01-01T00:00:00.000Z')`)
        db.exec(`insert into acl_membership values ('bob', 'role:operator', null, '2026-01-01T00:00:00.000Z')`)
        db.close()
      },
      'grants',
      /the principal "alice" .*; the member "bob" must look like/,
      /svc export demo/,
    ],
    'a group without a folder': [
      async (cli) => {
        await cli.ok('group demo add slack:1 team')
        rmSync(join(cli.root, 'groups/team'), { recursive: true })
      },
      'groups',
      /team has no folder on the disk/,
      /svc group demo add <jid> team/,
    ],
    'that main is gone': [
      async (cli) => {
        using store = new DatabaseSync(join(cli.root, 'store/svc.db'))
        store.exec(`delete from groups where folder = 'main'`)
      },
      'groups',
      /there is no group main/,
      /svc create demo/,
    ],
    'secrets that do not open': [
      async (cli) => {
        await cli.ok('secret demo set main K --value -', { stdin: 'x' })
        writeFileSync(env(cli), readFileSync(env(cli), 'utf8').replace(/^SECRETS_KEY=.*$/m, 'SECRETS_KEY=other'))
      },
      'secrets',
      /K of folder main: a stored secret does not open/,
      /add the former key to SECRETS_KEY after a comma/,
    ],
    'a signed link whose secret does not open': [
      async (cli) => {
        await cli.ok('token demo issue webhook main ci --verify github --verify-secret -', { stdin: 'x' })
        writeFileSync(env(cli), readFileSync(env(cli), 'utf8').replace(/^SECRETS_KEY=.*$/m, 'SECRETS_KEY=other'))
      },
      'secrets',
      /what hook:main\/ci is signed with: a stored secret does not open/,
      /or svc token demo issue webhook … again/,
    ],
  }
  for (const [what, [damage, check, detail, next]] of Object.entries(faults))
    test(what, async (t) => {
      const cli = await demoCli(t)
      await damage(cli)
      const { code, wrong } = await examine(cli)
      const found = wrong.find((finding) => finding.check === check)
      assert.equal(code, 1)
      assert.match(found?.detail ?? JSON.stringify(wrong), detail)
      assert.match(found?.next ?? '', next)
    })

  test('a clock that was set back, and one that was never set', async (t) => {
    const cli = await demoCli(t)
    for (const [at, detail] of [
      [Date.UTC(2025, 6, 1), /which lies in the future/],
      [0, /says 1970-01-01/],
    ] as const) {
      const { code, stdout } = await cli.run('doctor demo', { clock: fakeClock(at) })
      assert.equal(code, 1)
      assert.match(stdout, detail)
    }
  })

  test('a key of .env that nobody knows, which is no fault', async (t) => {
    const cli = await demoCli(t)
    writeFileSync(env(cli), 'WEB_HOTS=x\n', { flag: 'a' })
    const { code, all } = await examine(cli)
    assert.equal(code, 0)
    assert.match(
      all.find(({ check }) => check === 'settings')?.detail ?? '',
      /unknown key WEB_HOTS; did you mean WEB_HOST/,
    )
  })
})

test('svc doctor changes nothing, and paints only on a terminal that wants it', async (t) => {
  const cli = await demoCli(t)
  const before = readFileSync(join(cli.root, 'store/svc.db'))
  const painted = await cli.run('doctor demo', { terminal: true })
  assert.match(painted.stdout, /\u001b\[32m✓\u001b\[39m directory/)
  const plain = await cli.run('doctor demo', { terminal: true, env: { NO_COLOR: '1' } })
  assert.doesNotMatch(plain.stdout, /\u001b/)
  assert.deepEqual(readFileSync(join(cli.root, 'store/svc.db')), before)
})

test('svc doctor of an instance that is set by its environment', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo')
  rmSync(join(cli.root, '.env'))
  const { stdout } = await cli.run('doctor demo', { env: { SECRETS_KEY: 'x' } })
  assert.match(stdout, /^! \.env: there is no \S+: all is set by the environment$/m)
})

suite('svc doctor about agents', () => {
  const agents = async (cli: Cli, env: Readonly<Record<string, string>> = {}): Promise<Finding | undefined> => {
    const { stdout } = await cli.run('doctor demo --json', { env })
    return (JSON.parse(stdout) as Finding[]).find(({ check }) => check === 'agents')
  }

  test('says who they run as, what they see and what they reach', needs('bubblewrap'), async (t) => {
    const cli = await demoCli(t)
    const who = process.getuid?.() === 0 ? 'uid 60000' : `the user of svc (uid ${process.getuid?.()})`
    const { status, detail } = (await agents(cli)) ?? {}
    const files = 'its own workspace, programs of the machine to read'
    assert.equal(detail, `run as ${who}; see ${files}; reach the hosts of svc network rules and its own model`)
    assert.equal(status, 'ok')
    assert.match((await agents(cli, { SANDBOX_PATHS: '/srv/models' }))?.detail ?? '', /to read, \/srv\/models to read;/)
    const open = await agents(cli, { NETWORK: 'open' })
    assert.equal(open?.status, 'note')
    assert.match(open?.detail ?? '', /reach everything that this machine can reach \(NETWORK=open\)$/)
    const none = await agents(cli, { SANDBOX: 'none' })
    assert.equal(none?.status, 'note')
    assert.match(none?.detail ?? '', /every file that this user can open \(SANDBOX=none\)/)
  })

  test('names what is missing for cells, which only the demo can do without', async (t) => {
    const cli = await demoCli(t)
    const { PATH } = process.env
    process.env.PATH = '/nowhere'
    t.after(() => {
      process.env.PATH = PATH
    })
    const [demo, command] = [await agents(cli), await agents(cli, { AGENT_RUNTIME: 'command' })]
    assert.deepEqual([demo?.status, command?.status], ['note', 'wrong'])
    assert.equal(command?.detail, 'agents cannot run in cells: bubblewrap is not installed')
    assert.match(command?.next ?? '', /^apt-get install bubblewrap perl-base, or set SANDBOX=none/)
  })

  test('refuses to run agents as root', async (t) => {
    const cli = await demoCli(t)
    const { code, stdout } = await cli.run('doctor demo', { env: { AGENT_UID: '0' } })
    assert.equal(code, 1)
    assert.match(stdout, /^✗ settings: AGENT_UID must not be 0: agents never run as root$/m)
  })
})
