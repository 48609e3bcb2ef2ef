import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agent, onEveryEngine, person, refused, testHost } from '../../test/support/host.ts'
import { networkRulesResource } from './network-rules.ts'

const { allow, deny, list, resolve } = networkRulesResource.verbs

onEveryEngine('network rules', (engine) => {
  test('a folder may reach what it and every folder above it may reach, and the seeded hosts', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('a', 'a/b', 'ab')
    await cli.call(allow, { folder: '', target: 'everywhere.example' })
    await cli.call(allow, { folder: 'a', target: 'A.example.' })
    await cli.call(allow, { folder: 'a/b', target: 'b.example' })
    await cli.call(allow, { folder: 'a/b', target: 'everywhere.example' })
    const hostsOf = async (folder: string) => (await cli.call(resolve, { folder })).hosts
    assert.deepEqual(await hostsOf(''), ['anthropic.com', 'api.anthropic.com', 'everywhere.example'])
    assert.deepEqual(await hostsOf('a/b'), [
      'a.example',
      'anthropic.com',
      'api.anthropic.com',
      'b.example',
      'everywhere.example',
    ])
    assert.deepEqual(await hostsOf('ab'), ['anthropic.com', 'api.anthropic.com', 'everywhere.example'])
  })

  test('allowing twice changes nothing, denying what is not there is not found', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('a')
    assert.deepEqual(await cli.call(allow, { folder: 'a', target: 'x.example' }), { added: true, target: 'x.example' })
    assert.deepEqual(await cli.call(allow, { folder: 'a', target: 'X.EXAMPLE.' }), {
      added: false,
      target: 'x.example',
    })
    await cli.call(deny, { folder: 'a', target: 'x.example' })
    await assert.rejects(cli.call(deny, { folder: 'a', target: 'x.example' }), refused('not_found', 'x.example'))
  })

  test('URLs, wildcards, addresses, ports and unknown folders are refused', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('a')
    for (const target of ['https://x.example', '*.x.example', '10.0.0.1', 'x.example:443', '']) {
      await assert.rejects(cli.call(allow, { folder: 'a', target }), refused('invalid', 'target'))
    }
    await assert.rejects(cli.call(allow, { folder: 'nobody', target: 'x.example' }), refused('not_found', 'nobody'))
    assert.deepEqual((await cli.call(list, { folder: 'a' })).network_rules, [])
  })

  test('the root agent writes any rule, others none unless granted, and each sees its own', async (t) => {
    const { as, cli, grant, groups } = await testHost(t, engine)
    await groups('main', 'a', 'b')
    await as(agent('main')).call(allow, { folder: 'b', target: 'b.example' })
    await assert.rejects(as(agent('a')).call(allow, { folder: 'a', target: 'x.example' }), refused('forbidden'))
    await grant('folder:a', 'mcp:network_rules.allow', 'a/**')
    await as(agent('a')).call(allow, { folder: 'a', target: 'x.example' })
    await assert.rejects(as(agent('a')).call(allow, { folder: 'b', target: 'x.example' }), refused('forbidden'))
    await assert.rejects(as(agent('a')).call(allow, { folder: '', target: 'x.example' }), refused('forbidden'))
    await grant('folder:a', 'mcp:network_rules.list', 'a/**')
    const { network_rules: own } = await as(agent('a')).call(list, {})
    assert.deepEqual(
      own.map(({ target, created_by }) => [target, created_by]),
      [['x.example', 'folder:a']],
    )
    assert.equal((await cli.call(list, {})).network_rules.length, 4)
    assert.deepEqual((await as(person('github:1')).call(list, {})).network_rules, [])
  })

  test('an operator sees no rule of a folder that is denied to them', async (t) => {
    const { as, cli, grant, groups, operator } = await testHost(t, engine)
    await groups('a', 'b')
    await operator('github:op')
    for (const folder of ['a', 'b']) await cli.call(allow, { folder, target: 'x.example' })
    await grant('github:op', 'admin', 'b/**', 'deny')
    const { network_rules } = await as(person('github:op')).call(list, {})
    assert.deepEqual([...new Set(network_rules.map(({ folder }) => folder))], ['', 'a'])
  })
})
