import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine } from '../../test/support/host.ts'
import { openRoutingTest, type RoutingTest } from '../../test/support/routing.ts'
import { acl } from '../core/access/acl.ts'
import type { InboundMessage } from '../core/messages/inbound.ts'
import { onboarding } from '../core/people/onboarding.ts'
import { PAIRING_TTL_MS, PAIRINGS_MAX } from '../core/people/pairing-codes.ts'
import type { RoutingDecision } from '../core/routing/routing-decision.ts'
import { channelAccountsResource } from './channel-accounts.ts'
import { onboardingResource } from './onboarding.ts'

const accounts = channelAccountsResource.verbs
const { update, find_pairing } = onboardingResource.verbs

const TOKEN = '123456789:AAE-abcdefghijklmnopqrstuvwxyz'
const JID = 'telegram:user/42'
const PERSON = { jid: JID, sender: JID }

const connect = (on: RoutingTest, dm?: string): Promise<unknown> =>
  on.cli.call(accounts.add, {
    account: 'telegram',
    platform: 'telegram',
    settings: dm === undefined ? {} : { dm },
    secrets: { token: TOKEN },
  })

function replyOf(decision: RoutingDecision): string | undefined {
  return decision.kind === 'end' ? decision.reply : undefined
}

function outcomeOf(decision: RoutingDecision): string {
  return decision.kind === 'end'
    ? `${decision.outcome}: ${decision.reason}`
    : `${decision.kind} ${'folder' in decision ? decision.folder : ''}`
}

const codeIn = (reply: string | undefined): string => /code ([A-Z]{6})\b/.exec(reply ?? '')?.[1] ?? ''

const decideFor = async (on: RoutingTest, over: Partial<InboundMessage>, verb?: string): Promise<string> =>
  outcomeOf(await on.decide('hello', over, verb === undefined ? undefined : { verb }))

onEveryEngine('a direct chat with an account', (engine) => {
  test('gives an unknown person one code, also where a route takes all chats of the platform', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    await on.route(['platform=telegram', 'team'])
    const first = await on.decide('hello', PERSON)
    assert.match(
      replyOf(first) ?? '',
      /^Hello! I do not know you yet\. Send the code [BCDFGHJKLMNPQRSTVWXZ]{6} to the person who runs this account\. It is valid for an hour\.$/,
    )
    assert.equal(replyOf(await on.decide('hello?', PERSON)), undefined)
    assert.match(outcomeOf(first), /^onboarding: the person is not known yet/)
  })

  test('is routed as its routes say once an operator has approved the code', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    await on.route(['platform=telegram', 'team'])
    const code = codeIn(replyOf(await on.decide('hello', PERSON)))
    const typed = `${code.slice(0, 3)}-${code.slice(3).toLowerCase()}`
    const { jid } = await on.cli.call(find_pairing, { code: typed })
    assert.equal(jid, JID)
    const row = await on.cli.call(update, { jid, action: 'approve', to: 'other' })
    assert.deepEqual([row.status, row.folder, row.pairing_code], ['approved', 'other', undefined])
    assert.equal(await decideFor(on, PERSON), 'turn other')
    const grant = await on.host.engine.read((tx) => acl.find(tx, { principal: JID, scope: 'other' }))
    assert.equal(grant?.action, 'interact')
    await assert.rejects(on.cli.call(find_pairing, { code }), /no chat has this code, or it has expired/)
  })

  test('gives the person the role that the operator names, or none', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    for (const [id, role, action] of [
      ['1', 'admin', 'admin'],
      ['2', 'member', 'interact'],
      ['3', 'none', undefined],
    ] as const) {
      const jid = `telegram:user/${id}`
      await on.decide('hello', { jid, sender: jid })
      await on.cli.call(update, { jid, action: 'approve', to: 'team', role })
      const grant = await on.host.engine.read((tx) => acl.find(tx, { principal: jid, scope: 'team' }))
      assert.equal(grant?.action, action)
    }
    const wrong = on.cli.call(update, { jid: JID, action: 'approve', role: 'admin' })
    await assert.rejects(wrong, /role needs to, the folder that it is for/)
    const both = on.cli.call(update, { jid: JID, action: 'approve', to: 'team', folder: 'new' })
    await assert.rejects(both, /to is for approve, and without folder/)
  })

  test('gets a folder of its own if the operator names none', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    await on.decide('hello', PERSON)
    const row = await on.cli.call(update, { jid: JID, action: 'approve' })
    assert.match(row.folder ?? '', /^tg-user-42-[0-9a-f]{12}$/)
    assert.equal(await decideFor(on, PERSON), `turn ${row.folder}`)
  })

  test('stays with the operator if the folder does not exist', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    await on.decide('hello', PERSON)
    await assert.rejects(
      on.cli.call(update, { jid: JID, action: 'approve', to: 'nowhere' }),
      /there is no group nowhere/,
    )
    assert.equal((await on.host.engine.read((tx) => onboarding.find(tx, { jid: JID })))?.status, 'awaiting_message')
  })

  test(`waits without a code while ${PAIRINGS_MAX} others of its account have one`, async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    const ask = async (id: number): Promise<string> =>
      codeIn(replyOf(await on.decide('hello', { jid: `telegram:user/${id}`, sender: `telegram:user/${id}` })))
    for (let id = 1; id <= PAIRINGS_MAX; id++) assert.notEqual(await ask(id), '')
    assert.equal(await ask(PAIRINGS_MAX + 1), '')
    await on.cli.call(update, { jid: 'telegram:user/1', action: 'refuse' })
    assert.notEqual(await ask(PAIRINGS_MAX + 1), '')
  })

  test('gets another code when the first has expired, and not before', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    const code = codeIn(replyOf(await on.decide('hello', PERSON)))
    on.clock.advance(PAIRING_TTL_MS - 1)
    assert.equal(replyOf(await on.decide('hello', PERSON)), undefined)
    assert.equal((await on.cli.call(find_pairing, { code })).jid, JID)
    on.clock.advance(1)
    await assert.rejects(on.cli.call(find_pairing, { code }), /no chat has this code, or it has expired/)
    const next = codeIn(replyOf(await on.decide('hello', PERSON)))
    assert.ok(next !== '' && next !== code)
  })

  test('is open to people with a grant, to chats that a route names, and to answers to the agent', async (t) => {
    for (const dm of ['pairing', 'allowlist']) {
      const on = await openRoutingTest(t, engine)
      await connect(on, dm)
      await on.route(['room=user/1', 'other'], ['platform=telegram', 'team'])
      await on.grant('telegram:user/2', 'interact', 'team')
      await on.sent('team', '77', { jid: 'telegram:user/3' })
      const write = (id: number, envelope = {}) =>
        on.decide('hello', { jid: `telegram:user/${id}`, sender: `telegram:user/${id}` }, envelope)
      assert.equal(outcomeOf(await write(1)), 'turn other')
      assert.equal(outcomeOf(await write(2)), 'turn team')
      assert.equal(outcomeOf(await write(3, { reply_to_id: '77', verb: 'message' })), 'turn team')
      assert.match(outcomeOf(await write(4)), dm === 'pairing' ? /^onboarding/ : /^silent: .* known people only$/)
    }
  })

  test('with an untrusted sender gives no code and uses no grant', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    await on.route(['platform=telegram', 'team'])
    await on.grant(JID, 'interact', 'team')
    const decision = await on.decide('hello', PERSON, { verb: 'untrusted' })
    assert.equal(replyOf(decision), undefined)
    assert.match(outcomeOf(decision), /^onboarding/)
  })

  test('is routed like any other if the account is open, and never if it is off', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on, 'open')
    await on.route(['room=user/1', 'other'], ['platform=telegram', 'team'])
    assert.equal(await decideFor(on, PERSON), 'turn team')
    await on.cli.call(accounts.set, { account: 'telegram', name: 'dm', value: 'off' })
    assert.match(await decideFor(on, PERSON), /^silent: the account takes no direct chats$/)
    assert.match(await decideFor(on, { jid: 'telegram:user/1', sender: 'telegram:user/1' }), /^silent/)
  })

  test('is of no concern to groups, and to platforms of other adapters', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on)
    await on.route(['platform=*', 'team'])
    const group = await on.decide('hello', { jid: 'telegram:group/1', sender: JID }, { is_group: true })
    assert.equal(outcomeOf(group), 'turn team')
    assert.equal(await decideFor(on, { jid: 'slack:1', sender: 'slack:2' }), 'turn team')
  })

  test('is decided by the account that it belongs to', async (t) => {
    const on = await openRoutingTest(t, engine)
    await connect(on, 'off')
    await on.cli.call(accounts.add, {
      ...{ account: 'telegram-work', platform: 'telegram', settings: { dm: 'open' }, secrets: { token: TOKEN } },
    })
    await on.route(['platform=telegram*', 'team'])
    assert.equal(await decideFor(on, { jid: 'telegram-work:user/42', sender: JID }), 'turn team')
    assert.match(await decideFor(on, PERSON), /^silent/)
  })
})
