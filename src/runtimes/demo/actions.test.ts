import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { type FakeTool, ToolRefusal, type ToolSocket, toolSocket } from '../../../test/support/tool-socket.ts'
import { SocketClient } from '../socket-client.ts'
import { answerMessage } from './actions.ts'
import type { DemoTask } from './task.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z')

async function open(
  t: TestContext,
  tools: Record<string, FakeTool>,
  given: Partial<DemoTask> = {},
): Promise<ToolSocket & { task: DemoTask; say(text: string): Promise<string | undefined> }> {
  const server = await toolSocket(t, tools)
  const turn = { id: 't1', fence: 7 }
  const socket = await SocketClient.open(server.path, turn)
  t.after(() => socket.close())
  const task: DemoTask = {
    turn,
    socket: server.path,
    folder: 'team',
    jid: 'web:team',
    sender: 'anon:1',
    session: 's1',
    messages: [{ id: 'm1', sender: 'anon:1', text: '', jid: 'web:team' }],
    sentCount: 0,
    now: NOW,
    ...given,
  }
  return { ...server, task, say: (text) => answerMessage(socket, task, text) }
}

suite('the actions of the demo', () => {
  test('schedule a reminder as a one-time task in this chat', async (t) => {
    const { say, asked } = await open(t, { schedule_task: () => ({ taskId: 'task-1' }) })
    assert.match(
      (await say('remind me in 2m to drink water')) ?? '',
      /in 2m, at 2026-03-01T12:02:00.000Z.*drink water.*task-1/,
    )
    const args = { targetJid: 'web:team', prompt: 'Reminder: drink water', cron: '2026-03-01T12:02:00.000Z' }
    assert.deepEqual(asked, [`schedule_task ${JSON.stringify(args)}`])
    assert.equal(await say('Reminder: drink water'), '⏰ drink water')
  })

  test('list tasks and links', async (t) => {
    const lists: { tasks: unknown; tokens: object[] } = { tasks: [], tokens: [] }
    const { say } = await open(t, {
      list_tasks: () => lists.tasks,
      list_route_tokens: () => ({ tokens: lists.tokens }),
    })
    assert.match((await say('tasks')) ?? '', /No task/)
    assert.match((await say('links')) ?? '', /no links/)
    lists.tasks = [{ id: 'task-1', status: 'active', next_run: '2026-03-01T13:00:00Z', prompt: 'tea' }]
    lists.tokens = [{ jid: 'hook:team/github', created_at: '2026-03-01T00:00:00Z' }]
    assert.match((await say('tasks')) ?? '', /One task:\n- `task-1` active, next at .*: tea/)
    assert.match((await say('links')) ?? '', /`hook:team\/github`/)
  })

  test('find messages except the one that asks', async (t) => {
    const hits = [
      { id: 'm1', sender: 'anon:1', timestamp: 'now', content: 'find «tea»' },
      { id: 'm0', sender: 'anon:2', timestamp: 'before', content: 'black «tea»' },
    ]
    const { say } = await open(t, { find_messages: () => ({ messages: hits, count: 2, source: 'local-db' }) })
    assert.equal(await say('find tea'), 'Messages that match `tea`:\n- before `anon:2`: black «tea»')
    hits.pop()
    assert.match((await say('find tea')) ?? '', /No other message/)
  })

  test('append notes to the work file', async (t) => {
    let content = ''
    const { say } = await open(t, {
      get_work: () => ({ content, exists: content !== '' }),
      set_work: (args) => {
        content = String(args.content)
        return 'ok'
      },
    })
    assert.match((await say('notes')) ?? '', /There are no notes/)
    await say('note milk')
    await say('note tea')
    assert.equal(content, '- milk\n- tea\n')
    assert.equal(await say('notes'), content)
  })

  test('mint a hook, record a cost and describe the turn', async (t) => {
    const { say, asked } = await open(t, {
      issue_webhook: () => ({ token: 'x', url: 'http://localhost/hook/x', jid: 'hook:team/github' }),
      log_external_cost: () => ({ ok: true, cents: 5 }),
    })
    assert.match((await say('hook github')) ?? '', /http:\/\/localhost\/hook\/x/)
    assert.match((await say('spend 5 cents')) ?? '', /5 cents spent/)
    assert.deepEqual(asked, [
      'issue_webhook {"source_label":"github"}',
      'log_external_cost {"provider":"other","model":"demo","cost_usd":0.05}',
    ])
    assert.match((await say('who am I')) ?? '', /`anon:1`[\s\S]*`team`, tier 1;[\s\S]*3 tools: `issue_webhook`, /)
    assert.match((await say('help')) ?? '', /remind me in 2m/)
  })

  test('delegate a question to another folder and send no reply', async (t) => {
    const { say, asked } = await open(t, { delegate_group: () => ({ queued: true }) })
    assert.equal(await say('ask child how are you?'), undefined)
    assert.deepEqual(asked, [
      'delegate_group {"group":"team/child","prompt":"how are you?","chatJid":"web:team"}',
      'submit_status {"turn_id":"t1","text":"I have asked team/child"}',
    ])
    await say('ask team/other hm')
    assert.match(asked[2] ?? '', /"group":"team\/other"/)
    const root = await open(t, { delegate_group: () => ({ queued: true }) }, { folder: 'main' })
    await root.say('ask team hm')
    assert.match(root.asked[0] ?? '', /"group":"team"/)
  })

  test('reply with the refusal of a tool, or that the tool does not exist', async (t) => {
    const { say } = await open(t, {
      schedule_task: () => {
        throw new ToolRefusal('schedule_task: not permitted on team')
      },
    })
    assert.match(
      (await say('remind me in 1m to x')) ?? '',
      /called `schedule_task` and was refused: .*not permitted on team/,
    )
    assert.match((await say('ask child why')) ?? '', /I have no tool `delegate_group`/)
  })

  test('name the files of a message, also of one without a text, unless it asks for something', async (t) => {
    const { task } = await open(t, {})
    const socket = await SocketClient.open(task.socket, task.turn)
    t.after(() => socket.close())
    const voice = { name: 'a`b.ogg', type: 'audio/ogg', size: 12, transcript: 'hello there' }
    const text = { name: 'n.txt', type: 'text/plain', size: 1 }
    assert.equal(
      await answerMessage(socket, task, '', [voice]),
      "I got a file:\n- `a'b.ogg` (audio/ogg, 12 bytes): hello there",
    )
    const both = '> look\n\nI got 2 files:\n- `n.txt` (text/plain, 1 byte)\n- `n.txt` (text/plain, 1 byte)'
    assert.equal(await answerMessage(socket, task, 'look', [text, text]), both)
    assert.match((await answerMessage(socket, task, 'help', [text])) ?? '', /^I am the demo/)
  })

  test('quote only the start of a long message', async (t) => {
    const { say } = await open(t, {})
    const said = (await say('😀'.repeat(1000))) ?? ''
    assert.ok(said.includes(`${'😀'.repeat(400)} …`))
    assert.ok(!said.includes('😀'.repeat(401)))
    assert.match(said, /4000 bytes/)
  })
})
