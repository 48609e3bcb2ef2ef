// gate and network: what is about the whole instance.
import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

onEveryEngine('svc gate', (engine) => {
  test('add, list, disable, enable, rm', async (t) => {
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

  test('what is not there is said, with exit code 1', async (t) => {
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
  test('allow, list, resolve, deny', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('group demo add slack:2 team/sub')
    assert.equal(await cli.ok('network demo allow team API.Example.com.'), 'team may reach api.example.com\n')
    assert.equal(
      await cli.ok('network demo allow team api.example.com'),
      'team may reach api.example.com already; nothing changed\n',
    )
    assert.equal(await cli.ok('network demo allow (root) npmjs.org'), '(root) may reach npmjs.org\n')
    const [header, ...rows] = (await cli.ok('network demo list')).trimEnd().split('\n')
    assert.equal(header, 'FOLDER\tTARGET\tCREATED_AT\tCREATED_BY')
    assert.deepEqual(
      rows.map((row) => row.split('\t')).map(([folder, target, , by]) => [folder, target, by]),
      [
        ['(root)', 'anthropic.com', 'system'],
        ['(root)', 'api.anthropic.com', 'system'],
        ['(root)', 'npmjs.org', 'cli'],
        ['team', 'api.example.com', 'cli'],
      ],
    )
    assert.equal((await cli.ok('network demo list team')).split('\n').length, 3)
    assert.equal((await cli.run('network demo list team/sub')).stderr, 'no rules\n')
    const hosts = 'anthropic.com\napi.anthropic.com\napi.example.com\nnpmjs.org\n'
    assert.equal(await cli.ok('network demo resolve team/sub'), hosts)
    assert.deepEqual(JSON.parse(await cli.ok('network demo resolve team/sub --json')), hosts.trim().split('\n'))
    assert.match(await cli.ok('network demo deny team api.example.com'), /^removed the rule/)
    const again = await cli.run('network demo deny team api.example.com')
    assert.deepEqual([again.code, again.stderr], [1, 'svc: team has no rule for api.example.com\n'])
  })
})

suite('svc network allow refuses', () => {
  const demo = demoCli({ after })
  const cases: [string, string, RegExp][] = [
    ['main', 'https://x.com/', /must be a host name, not a URL/],
    ['main', '10.0.0.1', /not an IP address/],
    ['main', '[::1]', /not an IP address/],
    ['main', '*.x.com', /must not hold a wildcard/],
    ['main', '*', /must not hold a wildcard/],
    ['main', 'x.com:443', /must not hold a port/],
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
