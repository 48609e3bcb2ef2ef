// Tests of the commands for people: identity, invite and budget.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, suite, test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { fakeClock } from '../../../test/support/clock.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { timestamp } from '../../lib/clock.ts'

onEveryEngine('svc identity', (engine) => {
  test('links, lists and unlinks subs', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.deepEqual(await cli.run('identity demo list'), { code: 0, stdout: '', stderr: 'no identities\n' })
    const created = await cli.ok(['identity', 'demo', 'link', 'github:42', '--name', 'Ada L.'])
    const id = /^created identity ([0-9a-f-]{36}) \(Ada L\.\) and linked github:42\n$/.exec(created)?.[1] ?? ''
    assert.equal(await cli.ok(`identity demo link google:7 --id ${id}`), `linked google:7 -> ${id}\n`)
    const [header, row] = (await cli.ok('identity demo list')).split('\n')
    assert.equal(header, 'ID\tNAME\tCREATED_AT\tSUBS')
    assert.match(row ?? '', new RegExp(`^${id}\tAda L\\.\t\\S+Z\tgithub:42,google:7$`))
    const taken = await cli.run('identity demo link google:7 --name Bob')
    assert.deepEqual([taken.code, taken.stdout], [1, ''])
    assert.equal(
      taken.stderr,
      `svc: google:7 belongs to Ada L. (${id}) already\nhint: link it with --move to take it from that person\n`,
    )
    const bob = /^created identity (\S+) \(Bob\)/.exec(
      await cli.ok('identity demo link google:7 --name Bob --move'),
    )?.[1]
    assert.match(await cli.ok('identity demo list'), new RegExp(`^${bob}\tBob\t\\S+\tgoogle:7$`, 'm'))
    assert.equal(await cli.ok('identity demo unlink google:7'), 'unlinked google:7\n')
    assert.equal(await cli.ok('identity demo unlink google:7'), 'no claim to remove for google:7\n')
  })

  test('names a person after the sub by default and ignores --name for an existing person', async (t) => {
    const cli = await demoCliOn(t, engine)
    const id = /identity (\S+) \(github:42\)/.exec(await cli.ok('identity demo link github:42'))?.[1] ?? ''
    const { code, stderr } = await cli.run(`identity demo link google:7 -i ${id} -n Bob`)
    assert.equal(code, 0)
    assert.match(stderr, /--name is ignored/)
    assert.match(await cli.ok('identity demo list'), /\tgithub:42\t\S+\tgithub:42,google:7\n$/)
    const unknown = await cli.run('identity demo link google:8 --id nobody')
    assert.deepEqual([unknown.code, unknown.stderr], [1, 'svc: there is no identity nobody\n'])
    assert.match((await cli.run('identity demo link nobody')).stderr, /sub must look like provider:id/)
  })
})

onEveryEngine('svc invite', (engine) => {
  test('creates, lists and revokes invites', async (t) => {
    const cli = await demoCliOn(t, engine)
    const clock = fakeClock()
    const minted = await cli.ok('invite demo create team/** --max-uses 3 --expires 72h30m', { clock })
    const token = /^token: (\S{43})$/m.exec(minted)?.[1] ?? ''
    assert.match(
      minted,
      /^target_glob: team\/\*\*\nmax_uses: 3\nexpires_at: 2026-01-04T00:30:00.000Z\naccept_url: \S+\/invite\//m,
    )
    const [header, row] = (await cli.ok('invite demo list')).split('\n')
    assert.equal(header, 'TOKEN\tTARGET_GLOB\tISSUED_BY\tISSUED_AT\tEXPIRES_AT\tUSED')
    assert.equal(row, `${token.slice(0, 12)}\tteam/**\tcli\t2026-01-01T00:00:00.000Z\t2026-01-04T00:30:00.000Z\t0/3`)
    assert.equal(await cli.ok(['invite', 'demo', 'revoke', '--', token.slice(0, 12)]), 'revoked the invite\n')
    assert.match(await cli.ok('invite demo list'), /\trevoked\t0\/3\n$/)
    const again = await cli.run(['invite', 'demo', 'revoke', '--', token])
    assert.deepEqual([again.code, again.stderr], [1, 'svc: that invite is revoked already\n'])
    assert.equal((await cli.run('invite demo revoke nothing')).code, 1)
  })

  test('defaults to one use and no expiry, and lists the invites of one issuer', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.match(await cli.ok('invite demo create team -e 0'), /^max_uses: 1\nexpires_at: never$/m)
    assert.match(await cli.ok('invite demo list -b cli'), /\t-\t0\/1\n$/)
    assert.equal((await cli.run('invite demo list --issued-by github:1')).stderr, 'no invites\n')
  })
})

suite('svc invite create refuses', () => {
  const demo = demoCli({ after })
  const cases: Record<string, RegExp> = {
    'team --max-uses 0': /max_uses must be at least 1/,
    'team --max-uses -1': /max_uses must be at least 1/,
    'team --max-uses abc': /--max-uses must be a whole number, not "abc"/,
    'team --max-uses 1e9': /--max-uses must be a whole number/,
    'team --max-uses 9999999999': /max_uses must be at most/,
    'team --expires -1h': /must be a duration/,
    'team --expires 24': /must be a duration/,
    'team --expires 1y': /must be a duration/,
    'team/[': /target_glob is not a folder glob/,
    '../team': /target_glob has a segment/,
  }
  for (const [line, sentence] of Object.entries(cases))
    test(line, async () => {
      const cli = await demo
      const { code, stderr } = await cli.run(`invite demo create ${line}`)
      assert.equal(code, 1)
      assert.match(stderr, sentence)
      assert.equal(await cli.ok('invite demo list'), '')
    })
})

onEveryEngine('svc budget', (engine) => {
  test('sets, shows and removes a cap', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.match(
      await cli.ok('budget demo show folder main'),
      /^cap: none\nspent today: 0 cents\nremaining: no limit\nstatus: ok$/m,
    )
    assert.equal(await cli.ok('budget demo set folder main --daily 500'), 'folder main: capped at 500 cents a day\n')
    assert.equal(await cli.ok('budget demo set user github:42 -d 100'), 'user github:42: capped at 100 cents a day\n')
    assert.equal(
      await cli.ok('budget demo show folder main'),
      'folder: main\ncap: 500 cents a day\nspent today: 0 cents\nremaining: 500 cents\nstatus: ok\n',
    )
    assert.deepEqual(JSON.parse(await cli.ok('budget demo show user github:42 --json')), {
      scope: 'user',
      target: 'github:42',
      cap: 100,
      remaining: 100,
      spent: 0,
      status: 'ok',
    })
    assert.equal(await cli.ok('budget demo set folder main --daily 0'), 'folder main: cap removed\n')
    assert.match(await cli.ok('budget demo show folder main'), /^cap: none$/m)
  })
})

test('a budget warns at 80 percent and is exhausted above its cap', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('budget demo set folder main --daily 500')
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'))
  t.after(() => db.close())
  const spend = db.prepare(`insert into cost_log values ('main', ?, 'm', null, null, 0, 0, ?, ?, null)`)
  // A fixed time, because the budget restarts at midnight.
  const clock = fakeClock()
  const show = () => cli.ok('budget demo show folder main', { clock })
  const steps = [
    [399, 'ok', 101],
    [1, 'WARN', 100],
    [100, 'WARN', 0],
    [1, 'EXHAUSTED', -1],
  ] as const
  for (const [cents, status, remaining] of steps) {
    spend.run(`turn ${status} ${cents}`, cents, timestamp(clock.now()))
    assert.match(await show(), new RegExp(`remaining: ${remaining} cents\nstatus: ${status}\n$`))
  }
})

suite('svc budget refuses', () => {
  const demo = demoCli({ after })
  const cases: Record<string, RegExp> = {
    'set folder main --daily -1': /daily must be at least 0/,
    'set folder main': /--daily is missing/,
    'set folder main --daily 1e3': /--daily must be a whole number/,
    'set folder main --daily 9223372036854775808': /--daily must be at most 9007199254740991/,
    'set folder main --daily 1.5': /--daily must be a whole number/,
    'set folder nobody --daily 5': /there is no group nobody/,
    'set user nobody --daily 5': /sub must look like provider:id/,
    'set user telegram:42 --daily 5': /a cap for telegram:42 would have no effect: .*google, github, local, oidc/,
    'set user GitHub:42 --daily 5': /a cap for GitHub:42 would have no effect/,
    'set user anon:1234 --daily 1': /a cap for anon:1234 would have no effect/,
    'set world main --daily 5': /unknown subcommand "world"/,
    'show folder nobody': /there is no group nobody/,
  }
  for (const [line, sentence] of Object.entries(cases))
    test(line, async () => {
      const { code, stderr } = await (await demo).run(`budget demo ${line}`)
      assert.equal(code, 1)
      assert.match(stderr, sentence)
    })
})

onEveryEngine('svc people and svc access', (engine) => {
  test('list people, explain their rights and end their sessions', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal((await cli.run('people demo list --search nothing')).stderr, 'no person matches "nothing"\n')
    await cli.ok(['group', 'demo', 'grant', 'github:42', 'main/**'])
    await cli.ok(['group', 'demo', 'grant', 'local:op', '**'])
    await cli.ok(['identity', 'demo', 'link', 'github:42', '--name', 'Ada'])
    assert.equal(
      await cli.ok('people demo list --search ada'),
      'SUB\tNAME\tOTHER_SUBS\tROLES\tGRANTS\tSESSIONS\tSIGNED_IN\tSPENT_TODAY\ngithub:42\tAda\t-\t-\t1\t0\t-\t0 cents\n',
    )
    assert.match(await cli.ok('people demo show github:42'), /^sub: github:42\nname: Ada\n.*\nsigned in: never\n/s)
    assert.equal((await cli.run('people demo show github:1')).stderr, 'svc: there is no person github:1\n')
    assert.equal(
      await cli.ok('access demo explain github:42 main --tool interact'),
      'ACTION\tALLOWED\tREASON\ninteract\tyes\tallowed by acl: github:42 admin on main/**\n',
    )
    assert.match(
      await cli.ok('access demo explain folder:main main --tool send'),
      /\nsend\tyes\t\* is the last matching rule/,
    )
    assert.equal((await cli.run('access demo explain github:42 main -t none')).stderr, 'there is no tool none\n')
    assert.equal(
      await cli.ok('access demo who main'),
      `PRINCIPAL\tNAME\tMAY\tREASON
github:42\tAda\tadminister\tallowed by acl: github:42 admin on main/**
local:op\t-\tadminister\tallowed by acl: role:operator * on **
`,
    )
    await cli.ok('bearer demo github:42')
    assert.equal(await cli.ok('bearers demo revoke-all github:42'), 'bearers of github:42 revoked: 1\n')
    assert.equal(await cli.ok('bearers demo revoke-all github:42'), 'bearers of github:42 revoked: 0\n')
    assert.equal(await cli.ok('session demo revoke-all github:42'), 'sessions of github:42 revoked: 0\n')
  })
})
