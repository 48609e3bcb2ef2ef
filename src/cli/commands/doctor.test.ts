import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, test } from 'node:test'
import { crc32 } from 'node:zlib'
import { chatEndpoint, replyError, replyWhole } from '../../../test/support/chat-endpoint.ts'
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

async function runDoctor(cli: Cli): Promise<{ code: number; wrong: Finding[]; all: Finding[] }> {
  const { code, stdout } = await cli.run('doctor demo --json')
  // Whether cells work depends on the machine; other tests check it.
  const all = (JSON.parse(stdout) as Finding[]).filter(({ check }) => check !== 'agents')
  return { code, wrong: all.filter(({ status }) => status === 'wrong'), all }
}

onEveryEngine('svc doctor', (engine) => {
  test('finds no fault in a new instance, but notes that it has no operator', async (t) => {
    const cli = await demoCliOn(t, engine)
    const { code, all } = await runDoctor(cli)
    assert.equal(code, 0)
    assert.deepEqual(
      all.filter(({ status }) => status !== 'ok').map(({ check, next }) => [check, next]),
      [['operators', "svc group demo grant <provider>:<id> '**'"]],
    )
    await cli.ok('group demo grant github:1 **')
    const unconfined = await cli.run('doctor demo', { env: { SANDBOX: 'none' } })
    assert.equal(unconfined.code, 0)
    assert.deepEqual(unconfined.stdout.match(/^[^✓\s].*?:/gm), ['! agents:'])
  })

  test('lists rows of a removed group, which a new group of its name would inherit', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('network demo allow team x.example')
    await cli.ok('group demo grant folder:team team')
    await cli.run('secret demo set team K --value -', { stdin: 'v' })
    const findLeftovers = async () => (await runDoctor(cli)).all.find(({ check }) => check === 'leftovers')
    assert.equal((await findLeftovers())?.status, 'ok')
    await cli.ok('group demo rm team')
    const { status, detail, next } = (await findLeftovers()) ?? {}
    assert.equal(status, 'note')
    assert.match(
      detail ?? '',
      /^team, which is not a group, has 1 secret \(K\), 1 network rule \(x\.example\), \d grants? \(/,
    )
    assert.equal(next, 'svc group demo rm team --purge')
  })

  test('finds routes and tasks of a removed group', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('group demo rm team')
    const { code, wrong } = await runDoctor(cli)
    assert.equal(code, 1)
    assert.deepEqual(wrong.map(({ check }) => check).sort(), ['routes', 'tasks'])
    const { stdout } = await cli.run('doctor demo')
    assert.match(stdout, /^✗ routes: route \d+ leads to team, which is not a group\n {4}→ svc route demo rm \d+\n/m)
  })
})

test('names folders whose webhooks write only the default directory', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('group demo add slack:1 team')
  await cli.ok('token demo issue webhook team ci')
  await cli.ok('token demo issue webhook main ci --tools all')
  const find = async () => (await runDoctor(cli)).all.find(({ check }) => check === 'work paths')
  const { status, detail, next } = (await find()) ?? {}
  assert.deepEqual([status, detail], ['note', 'turns of webhooks write only data/ in the workspace of team'])
  await cli.ok((next ?? '').replace('svc ', ''))
  assert.equal((await find())?.status, 'ok')
  // What webhooks wrote there would become the workspace of another agent.
  const refused = await cli.run('group demo add slack:2 team/data')
  assert.match(
    refused.stderr,
    /data is a directory of team that its webhooks may write \(work_paths\); choose another name/,
  )
})

test('finds rows of paths that are reserved by now', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('group demo add slack:1 team')
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'))
  db.exec(`insert into web_routes (path_prefix, access, folder, created_at)
             values ('/Login/', 'public', 'team', '2026-01-01T00:00:00.000Z'), ('/pages/', 'public', 'team', '2026-01-01T00:00:00.000Z');
           insert into proxyd_routes (path, backend, auth)
             values ('/DASH/', 'http://x', 'public'), ('/.well-known/x', 'http://x', 'public')`)
  db.close()
  const { detail, status } = (await runDoctor(cli)).all.find(({ check }) => check === 'paths') ?? {}
  assert.equal(status, 'wrong')
  assert.equal(
    detail,
    'the web route /Login/ of team does not apply: the path is reserved; the proxy route /DASH/ does not apply: the path is reserved',
  )
})

test('notes routes that never match and chats that two routes match', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('group demo add slack:1 team')
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'))
  db.exec(`delete from routes`)
  db.exec(`insert into routes (id, seq, match, target) values (11, 0, 'platform=slack', 'team'), (12, 1, 'chat_jid=slack:7', 'main'),
    (13, 0, 'room=9', 'main')`)
  db.close()
  const { code, all } = await runDoctor(cli)
  const find = (name: string) => all.find(({ check }) => check === name)
  assert.deepEqual([code, find('routes')?.status, find('chats')?.status], [0, 'note', 'note'])
  assert.equal(find('routes')?.detail, 'route 12 never matches: route 11 (platform=slack) takes its messages first')
  assert.equal(find('routes')?.next, 'svc route demo rm 12')
  assert.match(
    find('chats')?.detail ?? '',
    /^routes 11 \(platform=slack, to team\) and 13 \(room=9, to main\) match the same chats/,
  )
})

test('reports turns that the host cannot run, with the reason', async (t) => {
  const cli = await demoCli(t)
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'))
  db.exec(`insert into turns (id, folder, topic, jid, chat_topic, sender, first_seq, last_seq, message_count, state, reason, attempts,
      fence, leased_until, run_after, replies, depth, is_isolated, is_timed, is_guest, is_stopping, started_at, postponed)
    values ('t1', 'main', '', 'web:x', '', 's', 1, 1, 1, 'retrying', 'its cell could not be set up', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
      '2026-01-01T00:00:00.000Z', 3)`)
  db.close()
  const { wrong } = await runDoctor(cli)
  const { detail, next } = wrong.find(({ check }) => check === 'waiting turns') ?? assert.fail('it is not reported')
  assert.equal(detail, 'turn t1 of main cannot run: its cell could not be set up')
  assert.equal(next, 'svc turns demo show t1')
})

test('reports workspaces of another user and worlds that share users', needs('root'), async (t) => {
  const cli = await demoCli(t)
  const findOwners = async (env: Readonly<Record<string, string>> = {}) =>
    (JSON.parse((await cli.run('doctor demo --json', { env })).stdout) as Finding[]).find(
      ({ check }) => check === 'owners',
    )
  const shared = { AGENT_UIDS: '2' }
  assert.equal((await findOwners(shared))?.detail, 'workspaces belong to a uid of their own from 60000 to 60001')
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'))
  db.exec(`insert into world_users values ('main', 0), ('a', 1)`)
  assert.equal((await findOwners(shared))?.status, 'ok')
  db.exec(`insert into world_users values ('b', 2)`)
  db.close()
  assert.deepEqual(await findOwners(shared), {
    check: 'owners',
    status: 'note',
    detail: '3 worlds (first segments of folders) share 2 uids: their agents can use up limits of each other',
    next: 'set AGENT_UIDS=3 or more in .env and restart',
  })
  const home = join(cli.root, 'groups/main')
  chownSync(home, 1234, 1234)
  assert.match(
    (await findOwners())?.detail ?? '',
    /^main belongs to uid 1234, but agents run as a uid of their own from 60000/,
  )
  assert.equal((await findOwners())?.next, 'svc serve demo gives them to their agents')
  // An instance of an ordinary user, whose workspace a command of root gave away.
  chownSync(cli.root, 4321, 4322)
  assert.deepEqual(await findOwners(), {
    check: 'owners',
    status: 'wrong',
    detail: 'main belongs to uid 1234, but agents run as uid 4321',
    next: 'sudo svc doctor demo --fix',
  })
  const file = join(home, 'file')
  writeFileSync(file, '')
  chownSync(file, 60_000, 60_000)
  const fixed = (await cli.run('doctor demo --fix')).stdout
  assert.ok(fixed.includes(`owners: fixed: give ${home} to uid 4321\n`), fixed)
  for (const path of [home, file]) assert.deepEqual([statSync(path).uid, statSync(path).gid], [4321, 4322])
  assert.equal((await findOwners())?.status, 'ok')
})

test(
  'finds files of root in an instance of an ordinary user, and as root gives them to this user',
  needs('root'),
  async (t) => {
    const cli = await demoCli(t)
    const findFiles = async () =>
      (await runDoctor(cli)).all.find(({ check }) => check === 'root files') ?? assert.fail('it is not checked')
    assert.equal((await findFiles()).status, 'ok')
    chownSync(cli.root, 4321, 4322)
    for (const name of readdirSync(cli.root)) chownSync(join(cli.root, name), 4321, 4322)
    const [log, store] = [join(cli.root, 'logs', 'team'), join(cli.root, 'store', 'svc.db')]
    mkdirSync(log)
    writeFileSync(join(log, 'file'), '')
    const found = await findFiles()
    assert.equal(found.status, 'wrong')
    assert.ok(found.detail.includes(`${log} belongs to root, and the instance to uid 4321`), found.detail)
    assert.equal(found.next, 'sudo svc doctor demo --fix')
    assert.match((await cli.run('doctor demo --fix')).stdout, /root files: fixed: give .*svc\.db.* to uid 4321\n/)
    for (const path of [log, join(log, 'file'), store])
      assert.deepEqual([statSync(path).uid, statSync(path).gid], [4321, 4322], path)
    assert.equal((await findFiles()).status, 'ok')
  },
)

test('--online calls each model once and reports the ones that fail', async (t) => {
  const cli = await demoCli(t)
  for (const folder of ['a', 'b', 'c']) await cli.ok(`group demo add sandbox:${folder} ${folder}`)
  const [good, bad] = [await chatEndpoint(t), await chatEndpoint(t)]
  good.answer(replyWhole('hi'))
  bad.answer(replyError(500, { message: 'no' }))
  await cli.ok(`model demo --base-url ${good.url} --model m`)
  await cli.ok(`model demo b --base-url ${bad.url} --model m --no-test`)
  await cli.ok('model demo c --runtime demo')
  const calls = good.asked.length
  const { stdout, code } = await cli.run('doctor demo --online --json', { env: { SANDBOX: 'none' } })
  const found = (JSON.parse(stdout) as Finding[]).filter(({ check }) => /^model/.test(check))
  assert.equal(code, 1)
  assert.deepEqual(
    found.map(({ status, next }) => [status, next]),
    [
      ['ok', undefined],
      ['ok', undefined],
      ['wrong', 'svc model demo b'],
    ],
  )
  assert.equal(found[0]?.detail, `a, main: m at ${good.url}; b: m at ${bad.url}; c: the built-in demo`)
  assert.match(found[1]?.detail ?? '', /^m at \S+ answered in \d+\.\d s$/)
  assert.equal(found[2]?.detail, `${bad.url} responded with 500: no`)
  assert.equal(good.asked.length, calls + 1)
})

test('notes a quota from 80 percent on', async (t) => {
  const cli = await demoCli(t)
  writeFileSync(join(cli.root, '.env'), 'LINK_QUOTA=1000\n', { flag: 'a' })
  await cli.ok('token demo issue chat main')
  const checkWith = async (bytes: number) => {
    const db = new DatabaseSync(join(cli.root, 'store/svc.db'))
    db.exec(`insert or replace into storage_use (scope, name, bytes) values ('chat', 'web:main', ${bytes})`)
    db.close()
    return (await runDoctor(cli)).all.find(({ check }) => check === 'storage')
  }
  assert.equal((await checkWith(799))?.status, 'ok')
  const { status, detail, next } = (await checkWith(800)) ?? {}
  assert.deepEqual(
    [status, detail, next],
    ['note', 'the chat web:main has used 80 % of LINK_QUOTA', 'svc settings demo set LINK_QUOTA <bytes>'],
  )
  assert.equal((await checkWith(999))?.status, 'note')
  assert.equal((await checkWith(1000))?.status, 'wrong')
  const listed = JSON.parse(await cli.ok('token demo list main --json'))
  assert.equal(listed[0].stored_bytes, 1000)
})

suite('svc doctor finds', () => {
  const open = (cli: Cli): DatabaseSync => new DatabaseSync(join(cli.root, 'store/svc.db'))
  const env = (cli: Cli): string => join(cli.root, '.env')
  const faults: Record<string, [(cli: Cli) => void | Promise<void>, string, RegExp, RegExp]> = {
    'a missing instance': [
      (cli) => rmSync(cli.root, { recursive: true }),
      'directory',
      /does not exist/,
      /svc create demo/,
    ],
    'workspaces that other users can read': [
      (cli) => chmodSync(join(cli.root, 'groups'), 0o755),
      'privacy',
      /^other users of this machine can read \S+\/groups$/,
      /^chmod 700 \S+\/groups$/,
    ],
    'private pages that other users can read': [
      (cli) => chmodSync(join(cli.root, 'web/priv'), 0o701),
      'privacy',
      /can read \S+\/web\/priv$/,
      /^chmod 700 \S+\/web\/priv$/,
    ],
    'an .env that other users can read': [(cli) => chmodSync(env(cli), 0o640), '.env', /mode 640/, /^chmod 600 /],
    'an invalid setting of a daemon': [
      (cli) => writeFileSync(env(cli), 'ROUTD_LISTEN=x\n', { flag: 'a' }),
      'settings',
      /ROUTD_LISTEN in \S+ must be host:port/,
      /^$/,
    ],
    'an invalid quota': [
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
      /^svc settings demo set FOLDER_QUOTA <bytes>$/,
    ],
    'an unknown time zone': [
      (cli) => writeFileSync(env(cli), 'TZ=Bogus/Zone\n', { flag: 'a' }),
      'time zone',
      /^TZ must be a time zone such as Europe\/Berlin or UTC, not "Bogus\/Zone"$/,
      /^set TZ=Europe\/Berlin or TZ=UTC in \S+\.env$/,
    ],
    'a runtime openai without a model and a key': [
      (cli) => writeFileSync(env(cli), 'AGENT_RUNTIME=openai\n', { flag: 'a' }),
      'models',
      /^main: no model is set; main: no key is set for https:\/\/api\.openai\.com\/v1$/,
      /^svc model demo$/,
    ],
    'a runtime claude without its program and a key': [
      (cli) => writeFileSync(env(cli), 'AGENT_RUNTIME=claude\nAGENT_CLI=/nowhere/claude\n', { flag: 'a' }),
      'models',
      /^main: the program \/nowhere\/claude is not installed; main: no key is set for Claude Code$/,
      /^svc model demo$/,
    ],
    'a program that is not visible in cells': [
      (cli) => {
        const program = join(cli.dir, 'claude')
        writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
        const lines = `AGENT_RUNTIME=claude\nAGENT_CLI=${program}\nANTHROPIC_API_KEY=x\n`
        writeFileSync(env(cli), lines, { flag: 'a' })
      },
      'models',
      /^main: the program \S+\/claude is not visible in cells: set SANDBOX_PATHS=\/\S+ in \.env$/,
      /^svc model demo$/,
    ],
    'a runtime command without a command': [
      (cli) => writeFileSync(env(cli), 'AGENT_RUNTIME=command\n', { flag: 'a' }),
      'models',
      /^main: no program is set$/,
      /^svc model demo$/,
    ],
    'a group with a program that cannot be executed': [
      async (cli) => {
        await cli.ok('group demo add slack:1 team')
        await cli.ok(['model', 'demo', 'team', '--command', './agent.py', '--no-test'])
        writeFileSync(join(cli.root, 'groups/team/agent.py'), '', { mode: 0o644 })
      },
      'models',
      /^team: the program \.\/agent\.py does not exist or cannot be executed$/,
      /^svc model demo team$/,
    ],
    'a group with an unknown runtime': [
      (cli) => open(cli).exec(`update groups set config = '{"runtime": "gpt"}' where folder = 'main'`),
      'models',
      /^main: unknown runtime "gpt"; known: demo, command, claude, openai$/,
      /^svc model demo main$/,
    ],
    'an encrypted key that was set for another endpoint': [
      async (cli) => {
        const line = 'model demo --base-url http://127.0.0.1:9/v1 --model m --key - --no-test'
        await cli.ok(line, { stdin: 'sk-1' })
        await cli.ok('settings demo set OPENAI_BASE_URL http://models.example/v1')
      },
      'models',
      /^main: OPENAI_API_KEY cannot be used with http:\/\/models\.example\/v1: .*; main: no key is set for/,
      /^svc model demo$/,
    ],
    'a missing store': [(cli) => rmSync(join(cli.root, 'store/svc.db')), 'store', /there is no store/, /^$/],
    'a damaged store': [
      (cli) => {
        const bytes = readFileSync(join(cli.root, 'store/svc.db'))
        // Pages in the middle, after the header and the schema.
        bytes.fill(0xff, bytes.length / 2, bytes.length - 4096)
        writeFileSync(join(cli.root, 'store/svc.db'), bytes)
      },
      'store',
      /is damaged/,
      /backup/,
    ],
    'an outdated schema': [
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
    'a group without a directory': [
      async (cli) => {
        await cli.ok('group demo add slack:1 team')
        rmSync(join(cli.root, 'groups/team'), { recursive: true })
        using store = open(cli)
        store.exec(`insert into conversations (folder, topic, waiting, observed_seq, updated_at)
          values ('team', '', 3, 0, '2026-01-01T00:00:00.000Z')`)
      },
      'groups',
      /team has no directory on disk, and 3 messages wait for it/,
      /restore \S+groups\/team, or create an empty one: svc group demo add <jid> team/,
    ],
    'that main is missing': [
      async (cli) => {
        using store = new DatabaseSync(join(cli.root, 'store/svc.db'))
        store.exec(`delete from groups where folder = 'main'`)
      },
      'groups',
      /there is no group main/,
      /svc create demo/,
    ],
    'secrets that cannot be decrypted': [
      async (cli) => {
        await cli.ok('secret demo set main K --value -', { stdin: 'x' })
        writeFileSync(env(cli), readFileSync(env(cli), 'utf8').replace(/^SECRETS_KEY=.*$/m, 'SECRETS_KEY=other'))
      },
      'secrets',
      /K of folder main: cannot open a stored secret/,
      /add the former key to SECRETS_KEY after a comma/,
    ],
    'a signed link whose secret cannot be decrypted': [
      async (cli) => {
        await cli.ok('token demo issue webhook main ci --verify github --verify-secret -', { stdin: 'x' })
        writeFileSync(env(cli), readFileSync(env(cli), 'utf8').replace(/^SECRETS_KEY=.*$/m, 'SECRETS_KEY=other'))
      },
      'secrets',
      /signing secret of hook:main\/ci: cannot open a stored secret/,
      /or set them again: svc token demo issue webhook <folder> <source>/,
    ],
    'a webhook whose answers cannot be signed': [
      async (cli) => {
        await cli.ok('token demo issue webhook main ci --answer-to https://ci.example.com/')
        writeFileSync(env(cli), readFileSync(env(cli), 'utf8').replace(/^SECRETS_KEY=.*$/m, 'SECRETS_KEY=other'))
      },
      'secrets',
      /secret of the answers of hook:main\/ci: cannot open a stored secret/,
      /or set them again: svc token demo issue webhook <folder> <source>/,
    ],
  }
  for (const [what, [damage, check, detail, next]] of Object.entries(faults))
    test(what, async (t) => {
      const cli = await demoCli(t)
      await damage(cli)
      const { code, wrong } = await runDoctor(cli)
      const found = wrong.find((finding) => finding.check === check)
      assert.equal(code, 1)
      assert.match(found?.detail ?? JSON.stringify(wrong), detail)
      assert.match(found?.next ?? '', next)
    })

  test('a clock that was set back, and one that was never set', async (t) => {
    const cli = await demoCli(t)
    for (const [at, detail] of [
      [Date.UTC(2025, 6, 1), /which is in the future/],
      [0, /is at 1970-01-01/],
    ] as const) {
      const { code, stdout } = await cli.run('doctor demo', { clock: fakeClock(at) })
      assert.equal(code, 1)
      assert.match(stdout, detail)
    }
  })

  test('half a provider to sign in with', async (t) => {
    const cli = await demoCli(t)
    const { code, stdout } = await cli.run('doctor demo', { env: { OIDC_CORP_ID: 'an id' } })
    assert.equal(code, 1)
    assert.match(stdout, /^✗ settings: OIDC_CORP_ISSUER is missing: OIDC_CORP_ID is set/m)
  })

  test('an unknown key in .env, which is only a note', async (t) => {
    const cli = await demoCli(t)
    writeFileSync(env(cli), 'WEB_HOTS=x\n', { flag: 'a' })
    const { code, all } = await runDoctor(cli)
    assert.equal(code, 0)
    assert.match(
      all.find(({ check }) => check === 'settings')?.detail ?? '',
      /unknown key WEB_HOTS; did you mean WEB_HOST/,
    )
  })
})

test('svc doctor finds rows that a lost log had, and --fix forgets the loss', async (t) => {
  const cli = await demoCli(t)
  const json = JSON.stringify({ messages: 30 })
  writeFileSync(join(cli.root, 'store/svc.db-mark'), `${crc32(json).toString(16).padStart(8, '0')} ${json}`)
  const { code, wrong } = await runDoctor(cli)
  assert.equal(code, 1)
  assert.deepEqual(
    wrong.map(({ check, detail }) => [check, detail]),
    [['lost rows', 'messages ends at number 0, but had reached 30']],
  )
  assert.match(await cli.ok('doctor demo --fix --yes'), /fixed: forget that rows were lost/)
  assert.match(await cli.ok('doctor demo'), /lost rows: no commit is missing that was on the disk/)
})

test('svc doctor changes nothing, and uses colours only on a terminal without NO_COLOR', async (t) => {
  const cli = await demoCli(t)
  const before = readFileSync(join(cli.root, 'store/svc.db'))
  const coloured = await cli.run('doctor demo', { terminal: true })
  assert.match(coloured.stdout, /\u001b\[32m✓\u001b\[39m directory/)
  const plain = await cli.run('doctor demo', { terminal: true, env: { NO_COLOR: '1' } })
  assert.doesNotMatch(plain.stdout, /\u001b/)
  assert.deepEqual(readFileSync(join(cli.root, 'store/svc.db')), before)
})

test('svc doctor accepts an instance that is configured by its environment', async (t) => {
  const cli = testCli(t)
  await cli.ok('create demo')
  rmSync(join(cli.root, '.env'))
  const { stdout } = await cli.run('doctor demo', { env: { SECRETS_KEY: 'x' } })
  assert.match(stdout, /^! \.env: there is no \S+: all settings come from the environment$/m)
})

suite('svc doctor about agents', () => {
  const checkAgents = async (cli: Cli, env: Readonly<Record<string, string>> = {}): Promise<Finding | undefined> => {
    const { stdout } = await cli.run('doctor demo --json', { env })
    return (JSON.parse(stdout) as Finding[]).find(({ check }) => check === 'agents')
  }

  test('reports their user, files and network', needs('bubblewrap'), async (t) => {
    const cli = await demoCli(t)
    const who =
      process.getuid?.() === 0 ? 'uids 60000 to 60999, one per world' : `the user of svc (uid ${process.getuid?.()})`
    const { status, detail } = (await checkAgents(cli)) ?? {}
    const files = 'their own workspace, programs of the machine (read-only)'
    assert.equal(detail, `run as ${who}; see ${files}; reach the hosts allowed by svc network, and their own model`)
    assert.equal(status, 'ok')
    assert.match(
      (await checkAgents(cli, { SANDBOX_PATHS: '/srv/models' }))?.detail ?? '',
      /read-only\), \/srv\/models \(read-only\);/,
    )
    const open = await checkAgents(cli, { NETWORK: 'open' })
    assert.equal(open?.status, 'note')
    assert.match(open?.detail ?? '', /reach every host that this machine can reach \(NETWORK=open\)$/)
    const none = await checkAgents(cli, { SANDBOX: 'none' })
    assert.equal(none?.status, 'note')
    assert.match(none?.detail ?? '', /all files of this user \(SANDBOX=none\)/)
  })

  test('reports what cells need, which is a fault for every runtime but demo', async (t) => {
    const cli = await demoCli(t)
    const { PATH } = process.env
    process.env.PATH = '/nowhere'
    t.after(() => {
      process.env.PATH = PATH
    })
    const [demo, command] = [await checkAgents(cli), await checkAgents(cli, { AGENT_RUNTIME: 'command' })]
    assert.deepEqual([demo?.status, command?.status], ['note', 'wrong'])
    assert.equal(command?.detail, 'agents cannot run in cells: bubblewrap is not installed')
    assert.match(command?.next ?? '', /^apt-get install bubblewrap perl-base, or set SANDBOX=none/)
    const engine = { SANDBOX: 'container', ENGINE_SOCKET: '/no/engine.sock', AGENT_RUNTIME: 'command' }
    const { status, detail, next } = (await checkAgents(cli, engine)) ?? {}
    assert.equal(status, 'wrong')
    assert.equal(detail, 'agents cannot run in cells: there is no container engine at /no/engine.sock')
    assert.match(next ?? '', /^start it \(systemctl start docker\), set ENGINE_SOCKET/)
  })

  test('refuses to run agents as root', async (t) => {
    const cli = await demoCli(t)
    const { code, stdout } = await cli.run('doctor demo', { env: { AGENT_UID: '0' } })
    assert.equal(code, 1)
    assert.match(stdout, /^✗ settings: AGENT_UID must not be 0: agents never run as root$/m)
  })
})
