import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import type { Tx } from '../../store/engine.ts'
import { holdForApproval, pendingActions } from '../access/approvals.ts'
import { onboardingGates } from '../people/onboarding-gates.ts'
import { conversations, sessionLog } from '../turns/conversations.ts'
import { DEFAULT_TURN_RULES } from '../turns/turn-rules.ts'
import { type Turn, turns } from '../turns/turns.ts'
import { runChatCommand } from './chat-commands.ts'
import { parseDirective } from './message-directive.ts'
import { compileRoutes } from './route-table.ts'
import { conversationName, type RoutingDecision } from './routing-decision.ts'

interface CommandTest extends TestHost {
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  command(text: string, over?: { sender?: string; topic?: string }): Promise<RoutingDecision>
}

const JID = 'telegram:42'
const NOW = '2026-01-01T00:00:00.000Z'

async function open(t: TestContext, engine: EngineName): Promise<CommandTest> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team')
  await on.operator('telegram:1')
  const { host, clock } = on
  const write: CommandTest['write'] = (work) => host.engine.transaction(work)
  return {
    ...on,
    write,
    command: (text, { sender = 'telegram:7', topic = '' } = {}) =>
      write(async (tx) => {
        const directive = parseDirective(text)
        assert.ok(directive.kind === 'command', text)
        const context = {
          writeContext: { dialect: host.engine.dialect, clock, random: host.random },
          rules: DEFAULT_TURN_RULES,
          policy: await host.policies.read(tx),
          routes: compileRoutes([]),
          instance: 'test',
          showCommands: host.showCommands,
        }
        const placement = { topic, chat_topic: '', verb: 'message' }
        const origin = { jid: JID, sender, folder: 'team', placement, conversationFor: conversationName }
        return runChatCommand(tx, context, origin, directive)
      }),
  }
}

function replyOf(decision: RoutingDecision): string {
  assert.ok(decision.kind === 'end')
  assert.equal(decision.outcome, 'answered')
  return decision.reply ?? ''
}

const turn: Turn = {
  id: 'one',
  folder: 'team',
  topic: '',
  jid: JID,
  chat_topic: '',
  sender: 'telegram:7',
  first_seq: 1,
  last_seq: 1,
  message_count: 1,
  state: 'running',
  attempts: 1,
  fence: 1,
  leased_until: 0,
  run_after: 0,
  replies: 0,
  depth: 0,
  is_isolated: false,
  is_timed: false,
  is_guest: false,
  is_stopping: false,
  started_at: NOW,
}

onEveryEngine('chat commands', (engine) => {
  test('/new clears the session of the conversation or named topic and passes on the text after it', async (t) => {
    const { command, write } = await open(t, engine)
    const row = { folder: 'team', waiting: 0, observed_seq: 0, updated_at: NOW }
    await write(async (tx) => {
      for (const topic of ['', 'bills', 'taxes'])
        await conversations.insert(tx, { ...row, topic, session_id: `session of ${topic}` })
    })
    const openTopics = async (): Promise<string[]> =>
      (await write((tx) => conversations.list(tx))).filter((each) => each.session_id).map(({ topic }) => topic)
    assert.equal(replyOf(await command('/new')), 'Session cleared.')
    assert.deepEqual(await openTopics(), ['bills', 'taxes'])
    assert.equal(replyOf(await command('/new #bills')), 'Topic session cleared.')
    assert.deepEqual(await openTopics(), ['taxes'])
    const decision = await command('/new how much?', { topic: 'taxes' })
    assert.deepEqual(decision, { kind: 'turn', folder: 'team', topic: 'taxes', chat_topic: '', verb: 'message' })
    assert.deepEqual(await openTopics(), [])
    assert.deepEqual(
      (await write((tx) => sessionLog.list(tx))).map(({ event }) => event),
      ['reset', 'reset', 'reset'],
    )
  })

  test('/stop stops the turns that reply to this chat, and no others of the folder', async (t) => {
    const { command, write } = await open(t, engine)
    assert.equal(replyOf(await command('/stop')), 'No turn is running for this chat.')
    await write(async (tx) => {
      await turns.insert(tx, turn)
      await turns.insert(tx, { ...turn, id: 'two', jid: 'telegram:9' })
      await turns.insert(tx, { ...turn, id: 'three', state: 'done' })
    })
    assert.equal(replyOf(await command('/stop')), 'Stopping.')
    const stopping = await write((tx) => turns.list(tx, { is_stopping: true }))
    assert.deepEqual(
      stopping.map(({ id }) => id),
      ['one'],
    )
  })

  test('/ping, /chatid and /help work for everyone and show more to operators', async (t) => {
    const { command } = await open(t, engine)
    assert.equal(replyOf(await command('/chatid')), JID)
    assert.equal(replyOf(await command('/ping')), 'pong\nfolder: team\nsession: none')
    assert.match(replyOf(await command('/ping', { sender: 'telegram:1' })), /running: 0\ngroups: 2$/)
    assert.doesNotMatch(replyOf(await command('/help')), /\/root/)
    assert.match(replyOf(await command('/help', { sender: 'telegram:1' })), /\/root/)
  })

  test('commands about the instance need an operator; injected and anonymous senders are never operators', async (t) => {
    const on = await open(t, engine)
    await on.operator('injected:telegram:1')
    await on.operator('anon:1')
    for (const sender of ['telegram:7', 'injected:telegram:1', 'anon:1', 'telegram:11'])
      for (const text of ['/status', '/root do it', '/invite', '/gate list', '/approve a', '/reject a'])
        assert.match(
          replyOf(await on.command(text, { sender })),
          /^\/\w+ is only for operators/,
          `${text} by ${sender}`,
        )
  })

  test('/status shows an operator the state of the instance', async (t) => {
    const { command, write } = await open(t, engine)
    await write((tx) => turns.insert(tx, turn))
    const text = replyOf(await command('/status', { sender: 'telegram:1' }))
    assert.match(text, /^instance: test\ngroups: 2\nturns running: 1\nmessages waiting: 0\n/)
  })

  test('/root starts one turn of the root, which replies to this chat', async (t) => {
    const { command } = await open(t, engine)
    assert.deepEqual(await command('/root clean up', { sender: 'telegram:1', topic: 'bills' }), {
      kind: 'turn',
      folder: 'main',
      topic: '',
      chat_topic: '',
      verb: 'root',
    })
    assert.match(replyOf(await command('/root', { sender: 'telegram:1' })), /^Missing text/)
  })

  test('/invite does not reveal a secret, and /gate lists the gates', async (t) => {
    const { command, write } = await open(t, engine)
    const sender = 'telegram:1'
    assert.match(replyOf(await command('/invite 3', { sender })), /svc invite test create 'team\/\*\*' -n 3$/)
    assert.match(replyOf(await command('/invite many', { sender })), /^The number of uses must be/)
    assert.equal(replyOf(await command('/gate', { sender })), 'There are no gates.')
    await write(async (tx) => {
      await onboardingGates.insert(tx, { spec: 'team/*', daily_limit: 3, enabled: true })
      await onboardingGates.insert(tx, { spec: 'zoo', daily_limit: 1, enabled: false })
    })
    assert.equal(replyOf(await command('/gate list', { sender })), 'team/*: 3 a day\nzoo: 1 a day, disabled')
    assert.match(replyOf(await command('/gate rm zoo', { sender })), /svc gate test rm zoo$/)
    assert.match(replyOf(await command('/gate open zoo', { sender })), /^Usage: \/gate/)
  })

  test('/approve and /reject decide a waiting tool call once', async (t) => {
    const { command, write, host, clock } = await open(t, engine)
    const sender = 'telegram:1'
    assert.equal(replyOf(await command('/approve', { sender })), 'No tool call is waiting for approval.')
    const call = { folder: 'team', tool: 'post', args_hash: 'x', summary: '{}' }
    await write((tx) => holdForApproval(tx, { clock, random: host.random }, call))
    const [{ id } = { id: '' }] = await write((tx) => pendingActions.list(tx))
    assert.equal(replyOf(await command('/approve', { sender })), `${id}: post by team {}`)
    assert.equal(
      replyOf(await command('/approve other', { sender })),
      'No tool call with the id other is waiting for approval.',
    )
    assert.equal(replyOf(await command(`/approve ${id}`, { sender })), 'Approved: post by team.')
    assert.equal(
      replyOf(await command(`/reject ${id}`, { sender })),
      `No tool call with the id ${id} is waiting for approval.`,
    )
    const [action] = await write((tx) => pendingActions.list(tx))
    assert.deepEqual([action?.status, action?.decided_by], ['approved', sender])
  })
})
