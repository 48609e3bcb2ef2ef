import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { groups } from '../groups/groups.ts'
import { bindWebHost, webHostFault, webHostOf, webHosts } from './web-hosts.ts'

suite('a host of the map', () => {
  const long = `${'a'.repeat(60)}.`.repeat(4)
  for (const host of [
    'team.example.com',
    'localhost',
    'localhost:8080',
    'a-b.c1',
    '10.0.0.1',
    `${long}${'a'.repeat(9)}`,
  ])
    test(`${host.slice(0, 30)} is a host`, () => assert.equal(webHostFault(host), undefined))
  for (const host of [
    '',
    `${long}${'a'.repeat(10)}`,
    'Team.example',
    'a_b.example',
    'team.example.',
    '.example',
    'a..b',
    '-a.example',
    'a-.example',
    'team.example:0',
    'team.example:99999',
    'team.example:',
    'a:1:2',
    'bücher.example',
    'a b',
    'a\u0000b',
    'https://a',
    '[::1]',
    '*.example',
    `${'a'.repeat(64)}.example`,
  ])
    test(`${JSON.stringify(host.slice(0, 30))} is not a host`, () => assert.ok(webHostFault(host)))

  test('accepts only the specified characters, at most 253', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.domain(), fc.stringMatching(/^[a-z0-9.:-]{0,260}$/)), (text) => {
        if (webHostFault(text) === undefined) assert.match(text, /^[a-z0-9.:-]{1,253}$/)
      }),
    )
  })
})

onEveryEngine('the host map', (engine) => {
  test('binds each host to one folder and rebinds it', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('main', 'team', 'other')
    const bind = (name: string, folder: string) => host.engine.transaction((tx) => bindWebHost(tx, name, folder))
    assert.deepEqual(await bind('b.example', 'team'), { 'b.example': 'team' })
    assert.deepEqual(await bind('a.example', 'team'), { 'a.example': 'team', 'b.example': 'team' })
    assert.deepEqual(await bind('b.example', 'other'), { 'a.example': 'team', 'b.example': 'other' })
    assert.equal(await host.engine.read((tx) => webHostOf(tx, 'team')), 'a.example')
    assert.equal(await host.engine.read((tx) => webHostOf(tx, 'main')), undefined)
    await assert.rejects(bind('B.example', 'team'), isRefusal('invalid', 'hostname must be a host name'))
  })

  test('removes the hosts of a removed group', async (t) => {
    const { host, groups: add } = await testHost(t, engine)
    await add('main', 'team')
    for (const [name, folder] of Object.entries({ 'a.example': 'team', 'b.example': 'team/site', 'c.example': 'main' }))
      await host.engine.transaction((tx) => bindWebHost(tx, name, folder))
    await host.engine.transaction((tx) => groups.remove(tx, { folder: 'team' }))
    assert.deepEqual(
      (await host.engine.read((tx) => webHosts.list(tx))).map(({ hostname }) => hostname),
      ['b.example', 'c.example'],
    )
  })
})
