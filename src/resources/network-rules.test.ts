import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agent, isRefusal, onEveryEngine, person, type TestCaller, testHost } from '../../test/support/host.ts'
import { networkRules } from '../core/access/allowlist.ts'
import { recordDenials } from '../core/access/network-denials.ts'
import { networkRulesResource } from './network-rules.ts'

const { allow, denied, deny, list, resolve } = networkRulesResource.verbs

onEveryEngine('network rules', (engine) => {
  test('a folder inherits the rules of folders above it and the default hosts', async (t) => {
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

  test('allowing twice changes nothing, and removing a missing rule is not found', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('a')
    assert.deepEqual(await cli.call(allow, { folder: 'a', target: 'x.example' }), { added: true, target: 'x.example' })
    assert.deepEqual(await cli.call(allow, { folder: 'a', target: 'X.EXAMPLE.' }), {
      added: false,
      target: 'x.example',
    })
    await cli.call(deny, { folder: 'a', target: 'x.example' })
    await assert.rejects(cli.call(deny, { folder: 'a', target: 'x.example' }), isRefusal('not_found', 'x.example'))
  })

  test('URLs, wildcards, addresses, ports and unknown folders are refused', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('a')
    for (const target of ['https://x.example', '*.x.example', '10.0.0.1', '0x7f.1', 'x.example:443', 'x\u0000', '']) {
      await assert.rejects(cli.call(allow, { folder: 'a', target }), isRefusal('invalid', 'target'))
    }
    await assert.rejects(cli.call(allow, { folder: 'nobody', target: 'x.example' }), isRefusal('not_found', 'nobody'))
    assert.deepEqual((await cli.call(list, { folder: 'a' })).network_rules, [])
  })

  test('a top-level domain is refused, and a stored one can be removed', async (t) => {
    const { cli, groups, host } = await testHost(t, engine)
    await groups('a')
    const sentence = 'target "com" would allow every name that ends in .com; write the host itself, such as example.com'
    for (const target of ['com', 'COM.'])
      await assert.rejects(cli.call(allow, { folder: 'a', target }), isRefusal('invalid', sentence))
    await assert.rejects(cli.call(allow, { folder: '', target: 'uk' }), isRefusal('invalid', 'target "uk" would allow'))
    const stored = { folder: 'a', target: 'com', created_at: '2026-01-01T00:00:00.000Z', created_by: 'cli' }
    await host.engine.transaction((tx) => networkRules.insert(tx, stored))
    assert.deepEqual((await cli.call(list, { folder: 'a' })).network_rules, [stored])
    await cli.call(deny, { folder: 'a', target: 'com' })
    assert.deepEqual((await cli.call(list, {})).network_rules, [])
  })

  test('a public suffix is allowed with a warning', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('a')
    for (const [target, warning] of [
      ['co.uk', '"co.uk" allows every name below it, and anyone can register one'],
      ['github.io', '"github.io" allows every name below it, and anyone can register one'],
      ['intranet', '"intranet" has a single label; it also allows every name that ends in .intranet'],
    ])
      for (const added of [true, false])
        assert.deepEqual(await cli.call(allow, { folder: 'a', target }), { added, target, warning })
  })

  test('the root writes any rule, other agents need a grant, and each sees its own', async (t) => {
    const { as, cli, grant, groups } = await testHost(t, engine)
    await groups('main', 'a', 'b')
    await as(agent('main')).call(allow, { folder: 'b', target: 'b.example' })
    await assert.rejects(as(agent('a')).call(allow, { folder: 'a', target: 'x.example' }), isRefusal('forbidden'))
    await grant('folder:a', 'mcp:network_rules.allow', 'a/**')
    await as(agent('a')).call(allow, { folder: 'a', target: 'x.example' })
    await assert.rejects(as(agent('a')).call(allow, { folder: 'b', target: 'x.example' }), isRefusal('forbidden'))
    await assert.rejects(as(agent('a')).call(allow, { folder: '', target: 'x.example' }), isRefusal('forbidden'))
    await grant('folder:a', 'mcp:network_rules.list', 'a/**')
    const { network_rules: own } = await as(agent('a')).call(list, {})
    assert.deepEqual(
      own.map(({ target, created_by }) => [target, created_by]),
      [['x.example', 'folder:a']],
    )
    assert.equal((await cli.call(list, {})).network_rules.length, 2)
    assert.deepEqual((await as(person('github:1')).call(list, {})).network_rules, [])
  })

  test('an operator does not see rules of denied folders', async (t) => {
    const { as, cli, grant, groups, operator } = await testHost(t, engine)
    await groups('a', 'b')
    await operator('github:op')
    for (const folder of ['', 'a', 'b']) await cli.call(allow, { folder, target: 'x.example' })
    await grant('github:op', 'admin', 'b/**', 'deny')
    const { network_rules } = await as(person('github:op')).call(list, {})
    assert.deepEqual(
      network_rules.map(({ folder }) => folder),
      ['', 'a'],
    )
  })

  test('a default host is always allowed at the root and cannot be removed', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('a')
    const target = 'api.anthropic.com'
    assert.deepEqual(await cli.call(allow, { folder: '', target: 'API.anthropic.com' }), { added: false, target })
    assert.deepEqual((await cli.call(list, {})).network_rules, [])
    const sentence = 'api.anthropic.com is a default host: every folder may reach it, and it cannot be removed'
    await assert.rejects(cli.call(deny, { folder: '', target }), isRefusal('invalid', sentence))
    await assert.rejects(cli.call(deny, { folder: 'a', target }), isRefusal('invalid', sentence))
    assert.equal((await cli.call(allow, { folder: 'a', target })).added, true)
    await cli.call(deny, { folder: 'a', target })
  })

  test('listing an unknown folder is refused only if the caller may see it', async (t) => {
    const { as, cli, grant, groups } = await testHost(t, engine)
    await groups('a', 'b')
    const own = as(agent('a'))
    for (const { toolName } of [list, denied]) await grant('folder:a', `mcp:${toolName}`, 'a/**')
    const lists = [
      (caller: TestCaller, folder: string) => caller.call(list, { folder }),
      (caller: TestCaller, folder: string) => caller.call(denied, { folder }),
    ]
    for (const listOf of lists) {
      await assert.rejects(listOf(cli, 'nope'), isRefusal('not_found', 'there is no group nope'))
      await assert.rejects(listOf(own, 'a/nope'), isRefusal('not_found', 'a/nope'))
      for (const folder of ['b', 'nope']) assert.deepEqual(Object.values(await listOf(own, folder)), [[]])
    }
  })

  test('denials are listed newest first in pages, for the folders of the caller', async (t) => {
    const { as, cli, grant, groups, host } = await testHost(t, engine)
    await groups('a', 'a/c', 'b')
    const denial = (folder: string, name: string, second: number) => {
      const at = `2026-01-01T00:00:0${second}.000Z`
      return { folder, host: name, port: 443, reason: 'blocked-by-allowlist', count: 1, at }
    }
    await host.engine.transaction((tx) =>
      recordDenials(tx, [
        denial('a', 'one', 1),
        denial('b', 'two', 2),
        denial('a/c', 'three', 3),
        denial('a', 'four', 3),
      ]),
    )
    const hostsOf = ({ network_denials }: { network_denials: { host: string }[] }) =>
      network_denials.map((row) => row.host)
    const first = await cli.call(denied, { limit: 3 })
    assert.deepEqual(hostsOf(first), ['four', 'three', 'two'])
    assert.deepEqual(hostsOf(await cli.call(denied, { limit: 3, after: first.next })), ['one'])
    assert.deepEqual(hostsOf(await cli.call(denied, { folder: 'a' })), ['four', 'one'])
    await assert.rejects(as(agent('a/c')).call(denied, {}), isRefusal('forbidden'))
    await grant('folder:a', 'mcp:network_rules.denied', 'a/**')
    assert.deepEqual(hostsOf(await as(agent('a')).call(denied, {})), ['four', 'three', 'one'])
    assert.deepEqual(hostsOf(await as(person('github:1')).call(denied, {})), [])
  })
})
