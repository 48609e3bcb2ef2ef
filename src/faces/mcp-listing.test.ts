// Tools that each tier sees; rights apply at every call.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { agent, onEveryEngine, testHost } from '../../test/support/host.ts'
import { openTools, PRODUCT_TOOLS, ROW_TOOLS, revoking } from '../../test/support/tools.ts'

const EVERY_TOOL = ROW_TOOLS.definitions.map(({ name }) => name)
const WEB_ROUTES = ['del_web_route', 'list_web_routes', 'set_web_route']
/** Document 001, section 4.1: tools of resources for tiers 0 and 1. */
const INNER = [
  'add_route',
  'cancel_task',
  'delete_route',
  'invite_create',
  'list_acl',
  'list_routes',
  'list_tasks',
  'pause_task',
  'resume_task',
  'schedule_task',
  'set_routes',
]
const BY_DEFAULT: Record<string, string[]> = {
  main: EVERY_TOOL,
  team: [...INNER.filter((name) => name !== 'list_routes'), ...WEB_ROUTES, 'refresh_groups'],
  'team/a': [...INNER.filter((name) => name !== 'list_routes'), ...WEB_ROUTES, 'refresh_groups'],
  'team/a/b': [...WEB_ROUTES, 'refresh_groups'],
  'team/a/b/c': [],
  'team/a/b/c/d': [],
}

const unknown = (name: string) => ({ code: -32602, message: `unknown tool: ${name}` })

onEveryEngine('registration', (engine) => {
  test('lists for each tier the tools that its rules name and its bracket admits', async (t) => {
    const at = await testHost(t, engine)
    await at.groups(...Object.keys(BY_DEFAULT))
    for (const [folder, names] of Object.entries(BY_DEFAULT)) {
      const session = await openTools(t, at.host, agent(folder), { list: ROW_TOOLS })
      assert.deepEqual(await session.names(), names.toSorted(), folder)
    }
  })

  test('applies a revoke to the next call of an open session', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    const session = await openTools(t, at.host, agent('team'))
    await assert.rejects(session.call('list_route_tokens'), unknown('list_route_tokens'))
    await at.grant('folder:team', 'mcp:list_route_tokens', 'team/**')
    assert.deepEqual(await session.call('list_route_tokens'), { tokens: [] })
    await revoking(at).ungrant('folder:team', 'mcp:list_route_tokens', 'team/**')
    await assert.rejects(session.call('list_route_tokens'), unknown('list_route_tokens'))
    assert.ok(!(await session.names()).includes('list_route_tokens'))
  })

  test('applies the loss of a role to the next call', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    const session = await openTools(t, at.host, agent('team'))
    await at.operator('folder:team')
    assert.deepEqual(await session.call('installed_packages.list'), { installed_packages: [] })
    await revoking(at).leave('folder:team', 'role:operator')
    await assert.rejects(session.call('installed_packages.list'), unknown('installed_packages.list'))
  })
})

suite('brackets', () => {
  const WILDCARDS = ['*', 'admin', 'mcp:*'] as const
  for (const action of WILDCARDS) {
    test(`a bracket takes precedence over the wildcard ${action}`, async (t) => {
      const at = await testHost(t)
      await at.groups('team/a/b', 'team/a/b/c')
      for (const folder of ['team/a/b', 'team/a/b/c']) await at.grant(`folder:${folder}`, action, '**')
      const guest = await openTools(t, at.host, agent('team/a/b'), { list: ROW_TOOLS })
      const stranger = await openTools(t, at.host, agent('team/a/b/c'), { list: ROW_TOOLS })
      assert.deepEqual(
        await guest.names(),
        EVERY_TOOL.filter((name) => !INNER.includes(name)),
      )
      assert.deepEqual(
        await stranger.names(),
        EVERY_TOOL.filter((name) => !INNER.includes(name) && name !== 'refresh_groups'),
      )
      for (const name of INNER) await assert.rejects(guest.call(name), unknown(name))
      await assert.rejects(stranger.call('refresh_groups'), unknown('refresh_groups'))
    })
  }

  test('a bracket takes precedence over a grant of the tool by name', async (t) => {
    const at = await testHost(t)
    await at.groups('team/a/b')
    await at.grant('folder:team/a/b', 'mcp:add_route', '**')
    const session = await openTools(t, at.host, agent('team/a/b'))
    await assert.rejects(session.call('add_route', { route: '{}' }), unknown('add_route'))
  })
})

suite('rules in the description', () => {
  test('appends the rules that name the tool to its description', async (t) => {
    const at = await testHost(t)
    await at.groups('team')
    await at.grant('folder:team', 'mcp:issue_webhook', 'team/**')
    await at.grant('folder:team', 'mcp:set_web_route', 'team/a', 'deny')
    const session = await openTools(t, at.host, agent('team'))
    const tools = new Map((await session.tools()).map(({ name, description = '' }) => [name, description.split('\n')]))
    assert.deepEqual(tools.get('issue_webhook'), [
      'Create a URL that another system can post to.',
      'grants: ["issue_webhook"]',
    ])
    assert.equal(tools.get('set_web_route')?.[1], 'grants: ["set_web_route","!set_web_route"]')
    assert.equal(tools.get('add_route')?.[1], 'grants: ["add_route"]')
  })

  test('a deny alone lists nothing, and one that covers a default hides its tool', async (t) => {
    const at = await testHost(t)
    await at.groups('team')
    await at.grant('folder:team', 'mcp:list_route_tokens', '**', 'deny')
    await at.grant('folder:team', 'mcp:refresh_groups', '**', 'deny')
    const session = await openTools(t, at.host, agent('team'))
    await assert.rejects(session.call('list_route_tokens'), unknown('list_route_tokens'))
    assert.match(await session.refusal('refresh_groups'), /^refresh_groups: not permitted on team \(!refresh_groups/)
    assert.ok(!(await session.tools()).some(({ name }) => name === 'refresh_groups'))
  })

  test('a deny for a subfolder hides its rows from lists and refuses calls for it', async (t) => {
    const at = await testHost(t)
    await at.groups('team', 'team/a', 'team/vault')
    for (const tool of ['list_route_tokens', 'issue_chat_link', 'revoke_route_token']) {
      await at.grant('folder:team', `mcp:${tool}`, 'team/**')
      if (tool !== 'issue_chat_link') await at.grant('folder:team', `mcp:${tool}`, 'team/vault/**', 'deny')
    }
    for (const folder of ['team/a', 'team/vault']) {
      await at.grant(`folder:${folder}`, 'mcp:issue_chat_link', folder)
      await (await openTools(t, at.host, agent(folder))).call('issue_chat_link')
    }
    const session = await openTools(t, at.host, agent('team'))
    const jids = JSON.stringify(await session.call('list_route_tokens'))
    assert.ok(jids.includes('web:team/a') && !jids.includes('web:team/vault'), jids)
    assert.match(await session.refusal('revoke_route_token', { jid: 'web:team/vault' }), /that issued web:team\/vault$/)
    assert.deepEqual(await session.call('revoke_route_token', { jid: 'web:team/a' }), { deleted: 1 })
  })
})

test('every input schema is closed and has no references', () => {
  for (const { name, description, inputSchema } of PRODUCT_TOOLS.definitions) {
    assert.equal(inputSchema.additionalProperties, false, name)
    assert.ok(description?.endsWith('.'), name)
    const text = JSON.stringify(inputSchema)
    assert.ok(!/readOnly|writeOnly|\$schema|\$ref/.test(text), `${name}: ${text}`)
  }
})
