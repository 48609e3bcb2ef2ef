// Tests of the commands for the whole instance: gate and network.
import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { recordDenials } from '../../core/access/network-denials.ts'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

onEveryEngine('svc gate', (engine) => {
  test('adds, lists, disables, enables and removes gates', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.deepEqual(await cli.run('gate demo list'), { code: 0, stdout: '', stderr: 'no gates\n' })
    assert.equal(await cli.ok('gate demo add team/** 10/day'), 'gate team/**: 10/day\n')
    await cli.ok('gate demo add open 5')
    assert.equal(await cli.ok('gate demo disable team/**'), 'disabled gate team/**\n')
    await cli.ok('gate demo add team/** 12')
    assert.equal(await cli.ok('gate demo list'), 'GATE\tLIMIT/DAY\tENABLED\nopen\t5\tyes\nteam/**\t12\tno\n')
    assert.equal(await cli.ok('gate demo enable team/**'), 'enabled gate team/**\n')
    assert.equal(
      await cli.ok('gate demo list', { terminal: true }),
      'GATE     LIMIT/DAY  ENABLED\nopen     5          yes\nteam/**  12         yes\n',
    )
    assert.equal(await cli.ok('gate demo rm team/**'), 'removed gate team/**\n')
  })

  test('reports a missing gate and exits with 1', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const action of ['rm', 'enable', 'disable']) {
      const { code, stdout, stderr } = await cli.run(`gate demo ${action} team`)
      assert.deepEqual([code, stdout, stderr], [1, '', 'svc: there is no gate team\n'])
    }
  })
})

suite('svc gate add refuses', () => {
  const demo = demoCli({ after })
  for (const limit of ['0', '-1', '5/hour', '1.5', '5/day/day', '', '/day', '1e3', '99999999999'])
    test(`the limit ${limit || '(empty)'}`, async () => {
      const cli = await demo
      const { code, stderr } = await cli.run(['gate', 'demo', 'add', 'team', limit])
      assert.equal(code, 1)
      assert.match(stderr, /limit must be/)
      assert.equal(await cli.ok('gate demo list'), '')
    })
  for (const spec of ['', '[', 'a b'])
    test(`the glob ${spec || '(empty)'}`, async () => {
      const { code, stderr } = await (await demo).run(['gate', 'demo', 'add', spec, '5'])
      assert.equal(code, 1)
      assert.match(stderr, /spec /)
    })
})

onEveryEngine('svc network', (engine) => {
  test('refuses a top-level domain in allow and apply, and warns about a public suffix', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    const sentence = 'target "com" would allow every name that ends in .com; write the host itself, such as example.com'
    const refused = await cli.run('network demo allow team com')
    assert.deepEqual([refused.code, refused.stdout, refused.stderr], [1, '', `svc: ${sentence}\n`])
    const { stdout, stderr } = await cli.run('network demo allow team co.uk')
    assert.equal(stdout, 'team may reach co.uk\n')
    assert.equal(stderr, 'warning: "co.uk" allows every name below it, and anyone can register one\n')
    const manifest = (await cli.ok('export demo')).replace('target: co.uk', 'target: com')
    const applied = await cli.run('apply demo -', { stdin: manifest })
    assert.equal(applied.code, 1)
    assert.ok(applied.stderr.includes(sentence), applied.stderr)
    assert.match(await cli.ok('network demo list team'), /\tco\.uk\t/)
  })

  test('allows, lists, resolves and denies hosts', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('group demo add slack:2 team/sub')
    assert.equal(await cli.ok('network demo allow team API.Example.com.'), 'team may reach api.example.com\n')
    assert.equal(
      await cli.ok('network demo allow team api.example.com'),
      'team may already reach api.example.com; nothing changed\n',
    )
    assert.equal(await cli.ok('network demo allow (root) npmjs.org'), '(root) may reach npmjs.org\n')
    const [header, ...rows] = (await cli.ok('network demo list')).trimEnd().split('\n')
    assert.equal(header, 'FOLDER\tTARGET\tCREATED_AT\tCREATED_BY')
    assert.deepEqual(
      rows.map((row) => row.split('\t')).map(([folder, target, , by]) => [folder, target, by]),
      [
        ['(root)', 'anthropic.com', 'default'],
        ['(root)', 'api.anthropic.com', 'default'],
        ['(root)', 'npmjs.org', 'cli'],
        ['team', 'api.example.com', 'cli'],
      ],
    )
    assert.equal((await cli.ok('network demo list team')).split('\n').length, 3)
    assert.equal((await cli.run('network demo list team/sub')).stderr, 'no rules\n')
    const unknown = await cli.run('network demo list nope')
    assert.deepEqual([unknown.code, unknown.stdout, unknown.stderr], [1, '', 'svc: there is no group nope\n'])
    const hosts = 'anthropic.com\napi.anthropic.com\napi.example.com\nnpmjs.org\n'
    assert.equal(await cli.ok('network demo resolve team/sub'), hosts)
    assert.deepEqual(JSON.parse(await cli.ok('network demo resolve team/sub --json')), hosts.trim().split('\n'))
    assert.match(await cli.ok('network demo deny team api.example.com'), /^removed the rule/)
    const again = await cli.run('network demo deny team api.example.com')
    assert.deepEqual([again.code, again.stderr], [1, 'svc: team has no rule for api.example.com\n'])
  })
})

onEveryEngine('svc network with the default hosts', (engine) => {
  test('lists them first at the root and neither adds nor removes them', async (t) => {
    const cli = await demoCliOn(t, engine)
    const defaults = '(root)\tanthropic.com\t-\tdefault\n(root)\tapi.anthropic.com\t-\tdefault\n'
    assert.equal(await cli.ok('network demo list'), `FOLDER\tTARGET\tCREATED_AT\tCREATED_BY\n${defaults}`)
    assert.equal(await cli.ok('network demo list (root)'), await cli.ok('network demo list'))
    assert.deepEqual(JSON.parse(await cli.ok('network demo list --json')), [
      { folder: '', target: 'anthropic.com', created_by: 'default' },
      { folder: '', target: 'api.anthropic.com', created_by: 'default' },
    ])
    assert.equal(
      await cli.ok('network demo allow (root) anthropic.com'),
      '(root) may already reach anthropic.com; nothing changed\n',
    )
    const denied = await cli.run('network demo deny (root) anthropic.com')
    assert.equal(denied.code, 1)
    assert.match(denied.stderr, /anthropic\.com is a default host: .* cannot be removed/)
    assert.doesNotMatch(await cli.ok('export demo'), /anthropic/)
  })
})

onEveryEngine('svc network denied', (engine) => {
  test('lists each refused host with the command that allows it', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal((await cli.run('network demo denied')).stderr, 'no refused hosts\n')
    const [older, newer] = ['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z']
    const denial = { folder: 'main', reason: 'blocked-by-allowlist', count: 2, at: older }
    const environment = sourceOf('the environment', new Map([['SVC_DATA_DIR', cli.dir]]))
    const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
    await host.engine.transaction((tx) =>
      recordDenials(tx, [
        { ...denial, host: 'api.example.com', port: 443 },
        { ...denial, host: '10.0.0.1', at: newer },
        { ...denial, host: 'api.example.com', sni: 'hidden.example.com', port: 443, reason: 'sni-denied' },
      ]),
    )
    await host.close()
    assert.equal(
      await cli.ok('network demo denied main'),
      'FOLDER\tHOST\tSNI\tPORT\tREASON\tCOUNT\tLAST\tALLOW WITH\n' +
        `main\t10.0.0.1\t-\t-\tblocked-by-allowlist\t2\t${newer}\tno rule helps: an address, not a host name\n` +
        `main\tapi.example.com\t-\t443\tblocked-by-allowlist\t2\t${older}\tsvc network demo allow main api.example.com\n` +
        `main\tapi.example.com\thidden.example.com\t443\tsni-denied\t2\t${older}\tsvc network demo allow main hidden.example.com\n`,
    )
    const [{ host: first, port }] = JSON.parse(await cli.ok('network demo denied --json'))
    assert.deepEqual([first, port], ['10.0.0.1', 0])
    const unknown = await cli.run('network demo denied nope')
    assert.deepEqual([unknown.code, unknown.stderr], [1, 'svc: there is no group nope\n'])
    await cli.ok('network demo allow main api.example.com')
  })
})

suite('svc network allow refuses', () => {
  const demo = demoCli({ after })
  const cases: [string, string, RegExp][] = [
    ['main', 'https://x.com/', /must be a host name, not a URL/],
    ['main', '10.0.0.1', /not an IP address/],
    ['main', '[::1]', /not an IP address/],
    ['main', '0x7f000001', /not an IP address/],
    ['main', '*.x.com', /must not contain a wildcard/],
    ['main', '*', /must not contain a wildcard/],
    ['main', 'x.com:443', /must not contain a port/],
    ['main', 'bücher.example', /ASCII form/],
    ['main', '', /target must not be empty/],
    ['nobody', 'x.com', /there is no group nobody/],
    ['', 'x.com', /folder must not be empty\nhint: the root is '\(root\)'/],
  ]
  for (const [folder, target, sentence] of cases)
    test(`${folder || '(empty)'} ${target || '(empty)'}`, async () => {
      const { code, stderr } = await (await demo).run(['network', 'demo', 'allow', folder, target])
      assert.equal(code, 1)
      assert.match(stderr, sentence)
    })
})
