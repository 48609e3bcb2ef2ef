// Tools in the chats of visitors whom a link keeps apart.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { visitorPart } from '../src/core/links/visitor-chats.ts'
import { messages } from '../src/core/messages/messages.ts'
import { scheduledTasks } from '../src/core/schedule/tasks.ts'
import { routeTokensResource } from '../src/resources/route-tokens.ts'
import { scheduledTasksResource } from '../src/resources/scheduled-tasks.ts'
import { agent, type EngineName, onEveryEngine, testHost } from './support/host.ts'
import { addLink } from './support/rows.ts'
import { openSearchHost } from './support/search-host.ts'
import { openTools } from './support/tools.ts'
import { startTurn } from './support/turns.ts'

const LINK = 'web:team/site'
const [ANN, BOB] = [LINK + visitorPart('ann'), LINK + visitorPart('bob')]

async function openTeam(t: TestContext, engine: EngineName) {
  const here = await testHost(t, engine)
  await here.groups('main', 'team', 'team/sub')
  return { ...(await openSearchHost(t, engine, { on: here })), here }
}

onEveryEngine('tools in the chat of a visitor', (engine) => {
  for (const reach of ['chat', 'work', 'all'] as const) {
    test(`take the name of the link for the visitor\u2019s chat (reach ${reach})`, async (t) => {
      const on = await openTeam(t, engine)
      await addLink(on, LINK, { owner_folder: 'team', target_folder: 'team', tools: reach, visitors: 'apart' })
      await on.receive('xyzzy of bob', { jid: BOB, folder: 'team' })
      const turn = await startTurn(t, on.here, {
        ...{ folder: 'team', jid: ANN, target_folder: 'team', reach, content: 'xyzzy of ann' },
      })
      const tools = await openTools(t, on.host, agent('team'), { reach, turn: { id: turn.id, fence: turn.fence } })
      for (const chatJid of [LINK, ANN]) await tools.call('send', { chatJid, text: `to ${chatJid}` })
      await tools.call('reply', { chatJid: LINK, text: 'a reply' })
      await tools.call('schedule_task', { targetJid: LINK, prompt: 'remind', cron: '3600000' })
      const sent = await on.host.engine.read((tx) => messages.list(tx, { direction: 'out' }))
      assert.deepEqual(
        sent.map(({ jid, target_folder }) => [jid, target_folder]),
        [ANN, ANN, ANN].map((jid) => [jid, 'team']),
      )
      const [task] = await on.host.engine.read((tx) => scheduledTasks.list(tx, { prompt: 'remind' }))
      assert.equal(task?.chat_jid, ANN)
      for (const name of ['fetch_history', 'inspect_messages']) {
        const read = JSON.stringify(await tools.call(name, { chat_jid: LINK }))
        assert.ok(read.includes('of ann') && !read.includes('of bob'), read)
      }
      const found = JSON.stringify(await tools.call('find_messages', { query: 'xyzzy' }))
      assert.deepEqual(
        [found.includes('of «') || found.includes('ann'), found.includes('bob')],
        [true, reach === 'all'],
      )
      assert.ok(!JSON.stringify(await tools.call('find_messages', { query: 'xyzzy', scope: LINK })).includes('bob'))
      if (reach === 'all') return
      const bobs = await on.cli.call(scheduledTasksResource.verbs.schedule, {
        ...{ targetJid: BOB, prompt: 'of bob', cron: '3600000', contextMode: 'group' },
      })
      assert.ok(!JSON.stringify(await tools.call('inspect_tasks', {})).includes('of bob'))
      await tools.refusal('cancel_task', { taskId: bobs.taskId })
      const tries: [string, object][] = [
        ['send', { chatJid: BOB, text: 'x' }],
        ['fetch_history', { chat_jid: BOB }],
        ['get_thread', { chat_jid: BOB, topic: '' }],
        ['find_messages', { query: 'xyzzy', scope: BOB }],
        ['schedule_task', { targetJid: BOB, prompt: 'x', cron: '3600000' }],
      ]
      for (const [name, args] of tries)
        assert.match(
          await tools.refusal(name, args as never),
          /not permitted in .*visitors may use it only in their own chat/,
        )
    })
  }

  test('nothing can be sent to the link itself, because it has no readers', async (t) => {
    const on = await openTeam(t, engine)
    await addLink(on, LINK, { owner_folder: 'team', target_folder: 'team', visitors: 'apart' })
    await addLink(on, 'web:team', { owner_folder: 'team', target_folder: 'team' })
    const tools = await openTools(t, on.host, agent('team'))
    const tries: [string, object][] = [
      ['send', { chatJid: LINK, text: 'x' }],
      ['reply', { chatJid: LINK, text: 'x' }],
      ['inject_message', { chatJid: LINK, content: 'x' }],
      ['delegate_group', { group: 'team/sub', prompt: 'x', chatJid: LINK }],
      ['schedule_task', { targetJid: LINK, prompt: 'x', cron: '3600000' }],
    ]
    for (const [name, args] of tries)
      assert.equal(
        await tools.refusal(name, args as never),
        `nobody could read a message in ${LINK}, because its link keeps visitors apart\n` +
          `hint: name the chat of one visitor, ${LINK}~…, as in the messages of the visitor`,
        name,
      )
    await tools.call('send', { chatJid: ANN, text: 'to ann' })
    await tools.call('send', { chatJid: 'web:team', text: 'to all' })
    const sent = await on.host.engine.read((tx) => messages.list(tx, { direction: 'out' }))
    assert.deepEqual(
      sent.map(({ jid }) => jid),
      [ANN, 'web:team'],
    )
  })

  test('revoking names the link, not the chat of the turn', async (t) => {
    const on = await openTeam(t, engine)
    await addLink(on, LINK, { owner_folder: 'team', target_folder: 'team', tools: 'all', visitors: 'apart' })
    await on.cli.call(routeTokensResource.verbs.list_of, {})
    const turn = await startTurn(t, on.here, { folder: 'team', jid: ANN, target_folder: 'team', reach: 'all' })
    await on.grant('folder:team', 'mcp:revoke_route_token', 'team')
    const tools = await openTools(t, on.host, agent('team'), { reach: 'all', turn: { id: turn.id, fence: turn.fence } })
    assert.deepEqual(await tools.call('revoke_route_token', { jid: LINK }), { deleted: 1 })
  })
})
