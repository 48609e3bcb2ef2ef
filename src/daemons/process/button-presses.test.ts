// Approvals by buttons: who may press, what happens once, and what other people do not learn.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { test } from 'node:test'
import { agents } from '../../../test/support/agents.ts'
import { openChannelApi } from '../../../test/support/channel-api.ts'
import { EVERY_CAPABILITY, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { type EngineName, onEveryEngineQuickly } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { pendingActions } from '../../core/access/approvals.ts'
import { outbox } from '../../core/delivery/outbox.ts'
import { entryId, listRoomEntries } from '../../core/delivery/sandbox-rooms.ts'
import { decodeContent, messages } from '../../core/messages/messages.ts'
import { openLog } from '../../lib/log/log.ts'
import { audit } from '../../registry/audit.ts'
import { identitiesResource } from '../../resources/identities.ts'
import { pendingActionsResource } from '../../resources/pending-actions.ts'
import { OutboxWorker } from '../routd/outbox-worker.ts'
import { pressButton } from './button-presses.ts'

const DAY = 24 * 3_600_000

interface ShownMessage {
  readonly id: string
  readonly text: string
  readonly buttons: readonly string[]
}

async function setUp(t: TestContext, engine: EngineName, { chat, lacks = [] }: { chat: string; lacks?: string[] }) {
  const on = await agents(t, engine, ['main', 'team', 'team/sub', 'other'])
  const { host, at } = on
  const operator = `${chat.split(':')[0]}:op`
  await at.operator(operator)
  await at.grant('folder:*', 'hold:mcp:set_group_open', '**')
  Object.assign(host.limits, { approvalChat: chat })
  const api = await openChannelApi(t, at)
  const adapter = await fakeAdapter(t)
  const capabilities = { ...EVERY_CAPABILITY, ...Object.fromEntries(lacks.map((name) => [name, false])) }
  const token = await api.register({ url: adapter.url, capabilities, jid_prefixes: ['telegram:'] })
  const worker = new OutboxWorker({ host, log: await openLog({ to: { write: () => true } }) })
  t.after(() => worker.close())
  await on.begin({ id: 'turn-1', folder: 'team', jid: 'telegram:group/42' })
  const team = await on.open('team')
  const shown = async (): Promise<ShownMessage[]> => {
    if (!chat.startsWith('sandbox:'))
      return adapter.delivered.map(({ id, content: text, buttons }) => ({ id, text, buttons }))
    const entries = await host.engine.read((tx) => listRoomEntries(tx, chat, { limit: 100 }))
    return entries.map((entry) => ({
      id: entryId(entry),
      text: entry.content,
      buttons: (entry.buttons ?? []).map(({ id }) => id),
    }))
  }
  const settled = async (count: number): Promise<ShownMessage[]> => {
    await until(async () => {
      const rows = await host.engine.read((tx) => outbox.list(tx))
      return rows.length >= count && rows.every(({ state }) => state !== 'pending' && state !== 'sending')
    })
    return shown()
  }
  /** The agent of team asks. Returns the id of the call, and the message that asks for the decision. */
  const hold = async (open = false) => {
    const before = (await host.engine.read((tx) => outbox.list(tx))).length
    const { id } = (await team.call('set_group_open', { open })) as { id: string }
    const asked = (await settled(before + 1)).at(-1) ?? assert.fail('nothing was sent')
    return { id, asked, rows: before + 1 }
  }
  const press = (message: string, action: string, sender = operator, name?: string) =>
    pressButton(host, { jid: chat, message, action, sender, name })
  const statusOf = (id: string) => host.engine.read(async (tx) => (await pendingActions.find(tx, { id }))?.status)
  const texts = async (): Promise<string[]> =>
    (await host.engine.read((tx) => messages.list(tx))).map(({ content }) => decodeContent(content))
  return { ...on, api, adapter, token, operator, chat, team, hold, press, statusOf, settled, texts }
}

onEveryEngineQuickly('an approval in a chat', (engine) => {
  for (const chat of ['sandbox:ops', 'telegram:user/1']) {
    test(`is decided once by an operator with a button in ${chat}, which then shows who decided`, async (t) => {
      const on = await setUp(t, engine, { chat })
      const { id, asked, rows } = await on.hold()
      assert.equal(
        asked.text,
        `The agent of team asks to call set_group_open (${id}).\n\n\`\`\`\n{"open":false}\n\`\`\``,
      )
      assert.deepEqual(asked.buttons, ['approve', 'reject'])
      assert.deepEqual(await on.press(asked.id, 'approve', on.operator, 'Mia'), {})
      assert.equal(await on.statusOf(id), 'approved')
      const [message, ...others] = await on.settled(rows + 1)
      assert.deepEqual(others, [])
      assert.deepEqual(message, {
        id: asked.id,
        text: `The agent of team asks to call set_group_open (${id}).\n\nApproved by Mia (${on.operator}).`,
        buttons: [],
      })
      const again = await on.press(asked.id, 'reject')
      assert.equal(again.ignored, `the call ${id} does not wait for a decision any more`)
      assert.equal(await on.statusOf(id), 'approved')
      assert.deepEqual(await on.team.call('set_group_open', { open: false }), { ok: true, open: false })
      assert.equal((await on.texts()).filter((text) => text.includes('Repeat it with the same arguments')).length, 1)
    })
  }

  test('is refused with the other button, and expires', async (t) => {
    const on = await setUp(t, engine, { chat: 'sandbox:ops' })
    const first = await on.hold()
    assert.deepEqual(await on.press(first.asked.id, 'reject'), {})
    assert.equal(await on.statusOf(first.id), 'rejected')
    assert.match((await on.settled(first.rows + 1))[0]?.text ?? '', /\n\nRefused by sandbox:op\.$/)
    const second = await on.hold(true)
    on.at.clock.advance(DAY)
    assert.match((await on.press(second.asked.id, 'approve')).ignored ?? '', /does not wait for a decision any more/)
    assert.equal(await on.statusOf(second.id), 'expired')
    const { text, buttons } = (await on.settled(second.rows + 1)).at(-1) ?? assert.fail()
    assert.deepEqual([text.endsWith('\n\nExpired.'), buttons], [true, []])
  })

  test('is decided by nobody else, and each attempt is audited', async (t) => {
    const on = await setUp(t, engine, { chat: 'telegram:user/1' })
    await on.at.grant('telegram:admin', 'admin', 'team')
    const { id, asked, rows } = await on.hold()
    const strangers = ['telegram:stranger', 'telegram:admin', 'anon:telegram', 'injected:op']
    for (const sender of strangers)
      assert.deepEqual(await on.press(asked.id, 'approve', sender), { ignored: 'the sender may not decide' })
    assert.equal(await on.statusOf(id), 'held')
    assert.deepEqual((await on.settled(rows))[0]?.buttons, ['approve', 'reject'])
    const denied = await on.host.engine.read((tx) => audit.list(tx, { outcome: 'denied' }))
    assert.deepEqual(denied.map(({ actor }) => actor).toSorted(), strangers.toSorted())
  })

  test('is decided by the person whose platform account is linked to that of an operator', async (t) => {
    const on = await setUp(t, engine, { chat: 'telegram:user/1' })
    await on.at.operator('github:boss')
    const { link } = identitiesResource.verbs
    const { id: person } = await on.at.cli.call(link, { sub: 'github:boss', name: 'The Boss' })
    on.at.clock.advance(1000)
    await on.at.cli.call(link, { sub: 'telegram:user/9', id: person })
    const { id, asked } = await on.hold()
    assert.deepEqual(await on.press(asked.id, 'approve', 'telegram:user/9'), {})
    const row = await on.host.engine.read((tx) => pendingActions.find(tx, { id }))
    assert.deepEqual([row?.status, row?.decided_by], ['approved', 'github:boss'])
  })

  test('needs the button of this message in this chat', async (t) => {
    const on = await setUp(t, engine, { chat: 'telegram:user/1' })
    const { id, asked } = await on.hold()
    const other = { jid: 'telegram:user/2', message: asked.id, action: 'approve', sender: on.operator }
    for (const ignored of [
      await on.press(asked.id, 'decide'),
      await on.press('p999', 'approve'),
      await on.press('', 'approve'),
      await pressButton(on.host, other),
    ])
      assert.match(ignored.ignored ?? '', /^the message .* has no button /)
    assert.equal(await on.statusOf(id), 'held')
    const body = { verb: 'action', action: 'approve', reply_to: asked.id, sender: on.operator, id: 'press-1' }
    const send = (over: object) => on.api.ask('POST /v1/messages', { chat_jid: on.chat, ...body, ...over }, on.token)
    assert.match(String((await send({ chat_jid: 'telegram:user/2' })).body.ignored), /has no button/)
    assert.equal((await send({ verb: 'untrusted' })).status, 400)
    assert.equal((await send({ chat_jid: 'discord:1', sender: 'discord:op' })).status, 403)
    assert.equal(await on.statusOf(id), 'held')
    assert.deepEqual((await send({})).body, { ok: true, id: 'press-1' })
    assert.equal(await on.statusOf(id), 'approved')
    assert.match(String((await send({})).body.ignored), /does not wait for a decision any more/)
  })

  test('names commands where the platform has no buttons, and the decision is a message where it cannot edit', async (t) => {
    const on = await setUp(t, engine, { chat: 'telegram:user/1', lacks: ['buttons', 'edit'] })
    const { id, asked, rows } = await on.hold()
    assert.match(asked.text, new RegExp(`To decide, send /approve ${id} or /reject ${id}\\.$`))
    assert.deepEqual(asked.buttons, [])
    await on.at.cli.call(pendingActionsResource.verbs.decide, { id, decision: 'approve' })
    const sent = await on.settled(rows + 1)
    assert.match(sent.at(-1)?.text ?? '', /\n\nApproved by cli\.$/)
    assert.equal(sent.length, 2)
  })

  test('tells its arguments only to a chat whose agents may know them, and to no history', async (t) => {
    const on = await setUp(t, engine, { chat: 'telegram:user/1' })
    const cases = [
      [['team'], true],
      [['main'], true],
      [['builtin:drop'], true],
      [['other'], false],
      [['team/sub'], false],
      [['{sender}'], false],
      [['team', 'other#observe'], false],
    ] as const
    for (const [at, [targets, mayShow]] of cases.entries()) {
      Object.assign(on.host.limits, { approvalChat: `telegram:group/${at}` })
      for (const target of targets) await on.route(`room=group/${at}`, target)
      const { id, asked, rows } = await on.hold()
      assert.equal(asked.text.includes('"open":false'), mayShow, targets.join())
      assert.equal(asked.text.includes('Its arguments are in the dashboard.'), !mayShow, targets.join())
      await on.at.cli.call(pendingActionsResource.verbs.decide, { id, decision: 'reject' })
      await on.settled(rows + 1)
    }
    assert.ok(!(await on.texts()).some((text) => text.includes('"open"')))
  })

  test('is asked for at most twenty times at once, and once for the same call', async (t) => {
    const on = await setUp(t, engine, { chat: 'sandbox:ops' })
    await on.at.grant('folder:team', 'hold:mcp:send', '**')
    await on.route('room=other', 'team')
    for (let count = 0; count < 25; count++)
      for (const _ of ['once', 'again']) await on.team.call('send', { chatJid: 'sandbox:other', text: `text ${count}` })
    const asked = await on.settled(20)
    assert.equal(asked.length, 20)
  })

  test('is not asked for in a chat if no chat is set', async (t) => {
    const on = await setUp(t, engine, { chat: 'sandbox:ops' })
    Object.assign(on.host.limits, { approvalChat: undefined })
    await on.team.call('set_group_open', { open: false })
    assert.deepEqual(await on.host.engine.read((tx) => outbox.list(tx)), [])
  })
})
