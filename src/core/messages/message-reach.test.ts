import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { compilePolicy } from '../access/policy.ts'
import type { Envelope } from './envelopes.ts'
import { isVisitorMessage, reachOfMessage, reachOfPerson } from './message-reach.ts'
import type { Message } from './messages.ts'

const allow = (principal: string, action: string, scope: string) => ({
  ...{ principal, action, scope, effect: 'allow' as const, params: '', predicate: '' },
})
const policy = compilePolicy([allow('github:admin', 'admin', 'team/**'), allow('github:guest', 'interact', 'team')], [])
const envelope: Envelope = { message_seq: 1, jid: 'web:team', verb: 'message', depth: 0 }

const reach = (message: Partial<Message>, rest: { envelope?: Envelope; folder?: string; verb?: string } = {}) =>
  reachOfMessage(
    { message: { jid: 'web:team', sender: 'anon:1', ...message }, envelope: rest.envelope },
    { folder: rest.folder ?? 'team', verb: rest.verb ?? 'message' },
    async () => policy,
  )

suite('the reach of a message', () => {
  test('is that of its link, or the default of such links', async () => {
    assert.equal(await reach({}), 'chat')
    assert.equal(await reach({ reach: 'work' }), 'work')
    assert.equal(await reach({ reach: 'all' }), 'all')
    assert.equal(await reach({ jid: 'hook:team/ci', sender: 'ci' }), 'work')
    assert.equal(await reach({ jid: 'hook:team/ci', sender: 'ci', reach: 'chat' }), 'chat')
    assert.equal(await reach({ jid: 'sandbox:lobby', sender: 'sandbox:ann' }), 'all')
  })

  test('is work for a signed-in person, and all in folders that they administer', async () => {
    assert.equal(await reach({ sender: 'github:admin' }), 'all')
    assert.equal(await reach({ sender: 'github:admin' }, { folder: 'team/a' }), 'all')
    assert.equal(await reach({ sender: 'github:admin' }, { folder: 'other' }), 'work')
    assert.equal(await reach({ sender: 'github:guest' }), 'work')
    assert.equal(await reach({ sender: 'github:stranger' }), 'work')
    assert.equal(reachOfPerson(policy, 'github:admin', undefined), 'work')
    // A larger reach of the link is kept.
    assert.equal(await reach({ sender: 'github:guest', reach: 'all' }), 'all')
  })

  test('is not raised by a sender that a webhook, a tool or a schedule gives', async () => {
    assert.equal(await reach({ jid: 'hook:team/x', sender: 'github:admin' }), 'work')
    assert.equal(await reach({ sender: 'github:admin', reach: 'chat' }, { envelope }), 'chat')
    assert.equal(await reach({ sender: 'injected:github:admin', reach: 'chat' }, { envelope }), 'chat')
    assert.equal(await reach({ sender: 'system', reach: 'chat' }, { envelope }), 'chat')
  })

  test('is all for messages that an operator sends to the root', async () => {
    assert.equal(await reach({ sender: 'github:admin' }, { folder: 'main', verb: 'root' }), 'all')
  })

  test('is chat for visitors, which needs no policy', () => {
    const isVisitor = (message: Partial<Message>, itsEnvelope?: Envelope) =>
      isVisitorMessage({ message: { jid: 'web:team', sender: 'anon:1', ...message }, envelope: itsEnvelope })
    assert.equal(isVisitor({}), true)
    assert.equal(isVisitor({ reach: 'chat' }, envelope), true)
    assert.equal(isVisitor({ jid: 'hook:team/ci', reach: 'chat' }), true)
    assert.equal(isVisitor({ reach: 'work' }), false)
    assert.equal(isVisitor({ sender: 'github:stranger' }), false)
    assert.equal(isVisitor({ jid: 'hook:team/ci' }), false)
    assert.equal(isVisitor({ jid: 'sandbox:lobby' }), false)
  })
})
