// Runs all frequent operations of an instance with all daemons, and records the statements.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { groups } from '../../src/core/groups/groups.ts'
import { removeMessages, removeSessions, removeTurns } from '../../src/core/messages/retention.ts'
import { DAEMON_NAMES } from '../../src/daemons/settings.ts'
import { timestamp } from '../../src/lib/clock.ts'
import { removeAudit } from '../../src/registry/audit-retention.ts'
import { auditResource } from '../../src/resources/audit.ts'
import { conversationsResource } from '../../src/resources/conversations.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { inboxResource } from '../../src/resources/inbox.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import { turnsResource } from '../../src/resources/turns.ts'
import { CHANNEL_SECRET } from './channel-api.ts'
import { EVERY_CAPABILITY, fakeAdapter } from './fake-adapter.ts'
import { type EngineName, freshStore, type TestCaller, testHost } from './host.ts'
import { json, openLinkHost, openStream } from './link-host.ts'
import { fillOldStore } from './old-store.ts'
import { usePeople } from './people-requests.ts'
import { recordStatements } from './statements.ts'
import { openHttpTools } from './tools.ts'
import { until } from './until.ts'

const FOLDER = 'main'
const ROOM = 'telegram:group/1'

/** What the list of messages is filtered by; each has an index, or matches the newest messages. */
const MESSAGE_FILTERS = [
  {},
  { folder: FOLDER, direction: 'all' },
  { chat: 'web:main' },
  { state: 'failed', direction: 'all' },
  { state: 'refused', folder: FOLDER },
  { state: 'waiting' },
  { state: 'running' },
  { state: 'delegated' },
  { since: '2020-01-01T00:00:00Z', until: '2099-01-01T00:00:00Z' },
  { sender: 'anon:old' },
  { sender: 'anon:old', folder: FOLDER },
  { sender: 'anon:rare', folder: FOLDER },
] as const

/** What pages of the dashboard read about one folder. */
async function readFolderPages(cli: TestCaller, folder: string): Promise<void> {
  await cli.call(groupsResource.verbs.activity, { folder })
  await cli.call(groupsResource.verbs.activity, { search: folder })
  await cli.call(routeTokensResource.verbs.list_of, { folder })
  await cli.call(routesResource.verbs.of_folder, { folder })
  await cli.call(auditResource.verbs.list, { folder })
  await cli.call(turnsResource.verbs.list, { folder })
  await cli.call(scheduledTasksResource.verbs.list_of, { folder })
  await cli.call(conversationsResource.verbs.list, { folder })
  if (folder !== FOLDER) await cli.call(groupsResource.verbs.removal, { folder })
}

/** Runs all frequent operations over a store with `turns` old turns and returns the statements. */
export async function runBusyInstance(t: TestContext, engine: EngineName, turns: number) {
  const store = await freshStore(t, engine)
  const on = await testHost(t, engine, store)
  const { host } = on
  await on.groups(FOLDER, 'main/child')
  await fillOldStore(host.engine, {
    turns,
    folder: FOLDER,
    jids: ['web:main', ROOM],
    at: timestamp(host.clock.now()),
  })
  const cap = { cost_cap_cents_per_day: 1_000_000_000 }
  await host.engine.transaction((tx) => groups.update(tx, { folder: FOLDER }, cap))
  await on.cli.call(routesResource.verbs.create, { seq: 1, match: 'room=group/1', target: FOLDER })
  const adapter = await fakeAdapter(t, { isKeyed: true })
  const statements = recordStatements(host.engine)
  const s = await openLinkHost(t, { on, engine, daemons: DAEMON_NAMES, settings: { CHANNEL_SECRET } })
  const tell = async (path: string, body: object, bearer: string): Promise<{ token: string }> => {
    const answer = await fetch(`${s.url('routd')}${path}`, {
      method: 'POST',
      ...json(body, { Authorization: `Bearer ${bearer}` }),
    })
    assert.equal(answer.status, 200, await answer.clone().text())
    return (await answer.json()) as { token: string }
  }
  const wanted = { name: 'teled', url: adapter.url, jid_prefixes: ['telegram:'], capabilities: EVERY_CAPABILITY }
  const { token } = await tell('/v1/channels/register', wanted, CHANNEL_SECRET)
  const chat = await s.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: FOLDER, tools: 'all' })
  const link = { ...chat, chat: `/chat/${chat.token}/`, hook: `/hook/${chat.token}` }
  const hook = await s.mintHook()
  for (const key of ['a', 'a', 'b']) await s.to(`POST ${hook.hook}`, json({ n: key }, { 'Idempotency-Key': key }))
  for (let n = 0; n < 5; n++) await s.to(`POST ${hook.hook}`, json({ n }))
  const all = await openStream(t, `${s.url('webd')}${link.chat}events`)
  const turn = await s.speak(link, '/status on it\n/say hello\n/wait 200ms\n/say again')
  const frames = await openStream(t, `${s.url('webd')}${link.chat}${turn}/sse`)
  await s.ended(link, turn)
  await frames.over()
  for (const filter of MESSAGE_FILTERS) await s.cli.call(inboxResource.verbs.list, filter)
  for (const folder of [FOLDER, 'main/child']) await readFolderPages(s.cli, folder)
  await s.cli.call(inboxResource.verbs.details, { id: turn })
  const tools = [
    'fetch_history {"chatJid":"web:main"}',
    'inspect_messages {}',
    'find_messages {"query":"hello","scope":"web:main"}',
    'inspect_session {}',
    'inspect_routing {}',
    'list_tasks {}',
    'refresh_groups {}',
    'send {"chatJid":"telegram:group/1","text":"a word"}',
    'log_external_cost {"provider":"other","model":"x","cost_usd":0.01}',
    'delegate_group {"group":"main/child","prompt":"/say hm","chatJid":"web:main"}',
  ]
  for (const tool of tools) await s.ended(link, await s.speak(link, `/tool ${tool}`))
  await Promise.all(['a', 'b'].map(async (topic) => s.ended(link, await s.speak(link, '/say of a topic', topic))))
  await s.ended(link, await s.speak(link, '/fail no'))
  await s.ended(link, await s.speak(link, '/ping'))
  const mcp = await openHttpTools(t, `${s.url('webd')}${link.chat}mcp`)
  await mcp.call('get_history', {})
  const inbound = { chat_jid: ROOM, content: '/say to the room', sender: 'telegram:user/1', id: 'm1' }
  await tell('/v1/messages', inbound, token)
  await until(() => adapter.delivered.some(({ content }) => content === 'to the room'))
  for (const change of [
    { edits: 'm1', content: '/say to the whole room', sender: 'telegram:user/1', id: 'e1' },
    { reaction_removed: true, reaction: '👍', reply_to: 'm1', sender: 'telegram:user/1' },
  ])
    await tell('/v1/messages', { chat_jid: ROOM, ...change }, token)
  // Its turn is told of the changes.
  await tell('/v1/messages', { ...inbound, content: '/say changed', id: 'm2' }, token)
  await until(() => adapter.delivered.some(({ content }) => content === 'changed'))
  await tell('/v1/messages', { chat_jid: ROOM, deletes: 'm1' }, token)
  await usePeople(on)
  await s.to('GET /metrics')
  await s.to('GET /health')
  await until(() => all.events.length > 20)
  const old = { before: host.clock.now() + 1, now: host.clock.now(), limit: 100 }
  const { removed } = await host.engine.transaction((tx) =>
    removeMessages(tx, host.engine.dialect, { ...old, after: 0 }),
  )
  const removedTurns = await host.engine.transaction((tx) => removeTurns(tx, { ...old, after: '' }))
  const sessions = await host.engine.transaction((tx) => removeSessions(tx, { ...old, after: 0 }))
  await host.engine.transaction((tx) => removeAudit(tx, { ...old, after: 0 }))
  assert.deepEqual([removed, removedTurns.removed, sessions.removed], [100, 100, 100])
  await s.close()
  return { store, statements }
}
