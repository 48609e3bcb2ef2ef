// Calls that need an operator's approval.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Agents, agents } from '../../test/support/agents.ts'
import { isRefusal, onEveryEngineQuickly } from '../../test/support/host.ts'
import { pendingActions } from '../core/access/approvals.ts'
import { groups } from '../core/groups/groups.ts'
import { inbox } from '../core/messages/inbox.ts'
import { decodeContent, messages } from '../core/messages/messages.ts'
import { runChatCommand } from '../core/routing/chat-commands.ts'
import { parseDirective } from '../core/routing/message-directive.ts'
import { compileRoutes } from '../core/routing/route-table.ts'
import { conversationName } from '../core/routing/routing-decision.ts'
import { audit } from './audit.ts'

const OPERATOR = 'telegram:1'
const DAY = 24 * 3_600_000

/** Runs an operator's chat command and returns the reply. */
async function runCommand({ host }: Agents, text: string): Promise<string> {
  return host.engine.transaction(async (tx) => {
    const directive = parseDirective(text)
    assert.ok(directive.kind === 'command', text)
    const context = {
      writeContext: { dialect: host.engine.dialect, clock: host.clock, random: host.random },
      rules: host.rules,
      policy: await host.policies.read(tx),
      routes: compileRoutes([]),
      ...{ instance: 'test', showCommands: host.showCommands },
    }
    const message = {
      jid: 'telegram:9',
      sender: OPERATOR,
      folder: 'main',
      placement: { topic: '', chat_topic: '', verb: 'message' },
      conversationFor: conversationName,
    }
    const decision = await runChatCommand(tx, context, message, directive)
    return decision.kind === 'end' ? (decision.reply ?? '') : assert.fail(decision.kind)
  })
}

interface PendingReply {
  readonly pending: boolean
  readonly id: string
  readonly message: string
}

function pendingReply(answer: unknown): PendingReply {
  const pending = answer as PendingReply
  assert.match(pending.id, /^[0-9a-f]{8}$/)
  assert.equal(pending.pending, true)
  return pending
}

const isOpen = ({ host }: Agents) =>
  host.engine.read(async (tx) => (await groups.find(tx, { folder: 'team' }))?.open ?? assert.fail())

const statusOf = ({ host }: Agents, id: string) =>
  host.engine.read(async (tx) => (await pendingActions.find(tx, { id }))?.status)

onEveryEngineQuickly('calls on hold', (engine) => {
  test('run once after an operator approves them', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'other'])
    await here.at.operator(OPERATOR)
    await here.at.grant('folder:team', 'hold:mcp:set_group_open', 'team')
    await here.begin({ id: 'turn-1', folder: 'team', jid: 'telegram:42' })
    const team = await here.open('team')
    const close = () => team.call('set_group_open', { open: false })

    const { id, message } = pendingReply(await close())
    assert.equal(
      message,
      `set_group_open is held until an operator sends /approve ${id}. Nothing was done yet; you will get a message.`,
    )
    assert.equal(await isOpen(here), true)
    // Repeating a call gives the same approval; other arguments give a new one.
    assert.equal(pendingReply(await close()).id, id)
    const { id: other } = pendingReply(await team.call('set_group_open', { open: true }))
    assert.notEqual(other, id)
    const listed = await runCommand(here, '/approve')
    assert.ok(listed.includes(`${id}: set_group_open by team {"open":false}`), listed)

    assert.equal(await runCommand(here, `/approve ${id}`), 'Approved: set_group_open by team.')
    assert.equal(await runCommand(here, `/approve ${id}`), `No tool call with the id ${id} is waiting for approval.`)
    assert.equal(await runCommand(here, `/reject ${other}`), 'Rejected: set_group_open by team.')
    const notices = await here.host.engine.read((tx) => messages.list(tx))
    assert.deepEqual(
      notices.map(({ jid, sender, target_folder, content }) => [
        jid,
        sender,
        target_folder,
        decodeContent(content).split('.')[0],
      ]),
      [
        ['telegram:42', 'system', 'team', `The held call of set_group_open (${id}) was approved`],
        ['telegram:42', 'system', 'team', `The held call of set_group_open (${other}) was rejected`],
      ],
    )
    // A rejected call needs a new approval, and an approved call runs once.
    assert.notEqual(pendingReply(await team.call('set_group_open', { open: true })).id, other)
    assert.deepEqual(await close(), { ok: true, open: false })
    assert.deepEqual([await isOpen(here), await statusOf(here, id)], [false, 'released'])
    assert.notEqual(pendingReply(await close()).id, id)
    const rows = await here.host.engine.read((tx) => audit.list(tx, { surface: 'tool', outcome: 'ok' }))
    assert.deepEqual(
      rows.map(({ action, key }) => `${action} ${key}`.trim()),
      [
        ...Array.from({ length: 3 }, () => 'tools.hold set_group_open'),
        'tools.set_group_open',
        'tools.hold set_group_open',
      ],
    )
  })

  test('include read-only tools and tools with a prepare step', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    await here.at.operator(OPERATOR)
    await here.at.grant('folder:*', 'hold:mcp:*', '**')
    const team = await here.open('team')
    const sendFile = { chatJid: 'sandbox:1', filepath: '/home/node/PERSONA.md' }
    await here.route('room=1', 'team')
    for (const [tool, args] of [
      ['get_work', {}],
      ['refresh_groups', {}],
      ['send_file', sendFile],
    ] as const) {
      const { id } = pendingReply(await team.call(tool, args))
      await runCommand(here, `/approve ${id}`)
      const answer = await team.call(tool, args)
      assert.ok(!JSON.stringify(answer).includes('pending'), `${tool}: ${JSON.stringify(answer)}`)
      assert.equal(await statusOf(here, id), 'released')
      pendingReply(await team.call(tool, args))
    }
  })
})

test('a hold row grants nothing and applies only to permitted calls', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a/b/c', 'other'])
  await here.at.grant('folder:**', 'hold:mcp:*', '**')
  await here.at.grant('folder:**', 'hold:mcp:set_group_open', '**')
  const stranger = await here.open('team/a/b/c')
  await assert.rejects(stranger.call('set_group_open', { open: true }), { message: 'unknown tool: set_group_open' })
  const team = await here.open('team')
  assert.match(await team.refusal('reset_session', { groupFolder: 'other' }), /not permitted on other/)
  assert.equal(await team.refusal('set_group_open', {}), 'open is required')
  assert.equal(await here.host.engine.read((tx) => pendingActions.count(tx)), 0)
  for (const action of ['hold:', 'hold:admin', 'hold:*', 'hold:mcp:', 'holds:mcp:x'])
    await assert.rejects(here.at.grant('folder:team', action, '**'), isRefusal('invalid', 'the action'), action)
  // A row that denies the hold lifts it, and a grant of `*` does not include holds.
  await here.at.grant('folder:team', 'hold:mcp:set_group_open', 'team', 'deny')
  assert.deepEqual(await team.call('set_group_open', { open: true }), { ok: true, open: true })
  await here.at.ungrant('folder:**', 'hold:mcp:*', '**')
  await here.at.grant('folder:team', '*', '**')
  assert.equal(await team.call('set_work', { content: 'x' }), 'ok')
})

test('an approval is valid for one folder and one day, and /root turns need none', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'other'])
  await here.at.operator(OPERATOR)
  await here.at.grant('folder:**', 'hold:mcp:set_group_open', '**')
  const [team, other] = [await here.open('team'), await here.open('other')]
  const open = { open: true }
  const { id } = pendingReply(await team.call('set_group_open', open))
  await runCommand(here, `/approve ${id}`)
  pendingReply(await other.call('set_group_open', open))
  here.at.clock.advance(DAY)
  const { id: again } = pendingReply(await team.call('set_group_open', open))
  here.at.clock.advance(DAY)
  assert.equal(await runCommand(here, '/approve'), 'No tool call is waiting for approval.')
  assert.equal(
    await runCommand(here, `/approve ${again}`),
    `No tool call with the id ${again} is waiting for approval.`,
  )
  assert.equal(await statusOf(here, again), 'expired')

  await here.begin({ id: 'turn-1', folder: 'main' })
  await here.host.engine.transaction((tx) =>
    inbox.insert(tx, {
      ...{ message_seq: 1, id: 'turn-1', jid: 'telegram:9', folder: 'main', topic: '', chat_topic: '' },
      ...{ sender: OPERATOR, verb: 'root', state: 'running', updated_at: '2026-01-01T00:00:00.000Z' },
    }),
  )
  const root = await here.open('main')
  assert.deepEqual(await root.call('set_group_open', open), { ok: true, open: true })
})
