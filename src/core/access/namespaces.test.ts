import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ACCOUNT_NAMESPACES, isAccount, isReservedVerb, platformFault, senderFault } from './namespaces.ts'

test('rejects platforms that are reserved for accounts or for svc', () => {
  for (const name of ['google', 'github', 'local', 'oidc'])
    assert.equal(platformFault(name), 'is reserved for accounts', name)
  for (const name of ['web', 'hook', 'sandbox', 'system', 'folder', 'role', 'service', 'cli', 'anon', 'timed'])
    assert.equal(platformFault(name), 'is reserved for svc', name)
  for (const name of ['timed-isolated', 'timed-proactive', 'injected', 'delegate', 'escalate', 'svc'])
    assert.equal(platformFault(name), 'is reserved for svc', name)
  for (const name of ['discord', 'slack', 'githubs', 'webex', 'timeddly', 'x'])
    assert.equal(platformFault(name), undefined)
})

test('accepts senders of the chat’s platform, anonymous senders, and bare names that svc does not use', () => {
  for (const sender of ['discord:7', 'discord:', 'anon:x', 'mia', 'Mia L.', 'systematic', 'git hub'])
    assert.equal(senderFault(sender, 'discord'), undefined, sender)
  for (const sender of ['github:1', 'slack:7', 'Discord:7', 'folder:main', 'injected:mia', 'timed-isolated:1', ':x'])
    assert.match(senderFault(sender, 'discord') ?? '', /^a sender in a discord chat cannot have the namespace /, sender)
  for (const sender of ['system', 'System', ' system ', 'timed', 'timed-x', 'delegate', 'escalate', 'svc', 'cli'])
    assert.match(senderFault(sender, 'discord') ?? '', / is reserved for svc$/, sender)
})

test('accepts people of the platform that the chat is an account of only if the adapter may speak for them', () => {
  for (const sender of ['telegram-work:7', 'telegram:7', 'anon:x', 'mia'])
    assert.equal(senderFault(sender, 'telegram-work', 'telegram'), undefined, sender)
  for (const sender of ['telegram:7', 'telegram-home:7', 'slack:7'])
    assert.match(senderFault(sender, 'telegram-work') ?? '', /^a sender in a telegram-work chat cannot have/, sender)
  assert.match(senderFault('telegram-home:7', 'telegram-work', 'telegram') ?? '', / the namespace telegram-home$/)
})

test('never accepts an account or a principal of svc as a sender', () => {
  const part = fc.constantFrom('github', 'google', 'role', 'folder', 'service', 'discord', 'anon', 'mia', '', ' ')
  fc.assert(
    fc.property(part, fc.constantFrom('', ':'), fc.string({ maxLength: 8 }), (space, colon, rest) => {
      const sender = space + colon + rest
      if (senderFault(sender, 'discord') !== undefined) return
      assert.ok(!isAccount(sender))
      assert.ok(!/^(role|folder|service|injected|timed-isolated):/.test(sender))
    }),
  )
})

test('an account is <namespace>:<id>', () => {
  for (const name of ACCOUNT_NAMESPACES) assert.ok(isAccount(`${name}:1`))
  for (const sub of ['github', 'githubs:1', 'discord:1', 'x:github:1', 'GitHub:1']) assert.ok(!isAccount(sub), sub)
})

test('reserves the verbs root, delegate and escalate', () => {
  assert.deepEqual(['root', 'delegate', 'escalate', 'message', 'mention', 'join'].map(isReservedVerb), [
    ...[true, true, true],
    ...[false, false, false],
  ])
})
