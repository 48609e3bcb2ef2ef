import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine } from '../../../test/support/host.ts'
import { openOnboardingTest } from '../../../test/support/onboarding.ts'
import { OPEN_ROWS_MAX, onboarding } from './onboarding.ts'
import { ANSWERED_NAMES_MAX, onboardChat } from './onboarding-chat.ts'

const JID = 'telegram:42'

onEveryEngine('a chat without a route', (engine) => {
  test('is greeted once and queued by a name that is free', async (t) => {
    const on = await openOnboardingTest(t, engine)
    assert.match((await on.write(JID, 'ada')) ?? '', /^Hello! This chat has no folder yet\. To ask for a folder, reply/)
    assert.equal((await on.row(JID))?.status, 'awaiting_message')
    assert.match((await on.write(JID, '@svc "team/ada".')) ?? '', /^Your request for the folder team\/ada is noted/)
    const { status, folder, gate, user_sub, position } = (await on.row(JID)) ?? {}
    assert.deepEqual([status, folder, gate, user_sub, position], ['queued', 'team/ada', undefined, 'telegram:7', 1])
    assert.equal(await on.write(JID, 'other'), undefined)
    assert.equal((await on.row(JID))?.folder, 'team/ada')
  })

  test('is greeted with the text of the operator', async (t) => {
    const { host, clock } = await openOnboardingTest(t, engine)
    const message = { jid: JID, sender: 'telegram:7', text: 'hi', now: clock.now(), greeting: 'Welcome to ACME.' }
    const reply = await host.engine.transaction((tx) => onboardChat(tx, message))
    assert.match(reply ?? '', /^Welcome to ACME\. To ask for a folder, reply/)
  })

  test('gets the same sentence for every name that is not available', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main', 'team/sales')
    await on.ask('telegram:1', 'wanted')
    await on.write(JID, 'hello')
    for (const folder of ['main', 'team', 'team/sales', 'wanted'])
      assert.equal(await on.write(JID, folder), `The name ${folder} is not available. Choose another one.`)
    for (const text of ['two words', '../up', 'share', 'a//b', ''])
      assert.match((await on.write(JID, text)) ?? '', /^That is not a folder name\./)
  })

  test(`gets no more than ${ANSWERED_NAMES_MAX} sentences about unusable names`, async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.write(JID, 'hello')
    for (let count = 0; count < ANSWERED_NAMES_MAX; count++)
      assert.notEqual(await on.write(JID, 'not a name'), undefined)
    assert.equal(await on.write(JID, 'not a name'), undefined)
    assert.equal(await on.write(JID, 'name'), undefined)
  })

  test('makes room by removing the oldest chat of its platform that named no folder', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.ask('telegram:0', 'wanted')
    await on.host.engine.transaction(async (tx) => {
      for (let room = 1; room < OPEN_ROWS_MAX; room++)
        await onboarding.insert(tx, {
          jid: `telegram:${room}`,
          status: 'awaiting_message',
          created: `2025-01-01T00:00:00.${String(room).padStart(3, '0')}Z`,
          attempts: 0,
        })
    })
    assert.match((await on.write('discord:1', 'hello')) ?? '', /^Hello/)
    assert.notEqual(await on.row('telegram:1'), undefined)
    assert.match((await on.write('telegram:new', 'hello')) ?? '', /^Hello/)
    assert.equal(await on.row('telegram:1'), undefined)
    assert.notEqual(await on.row('telegram:2'), undefined)
    assert.equal((await on.row('telegram:0'))?.status, 'queued')
  })

  test('is ignored while its platform is full of requests', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.host.engine.transaction(async (tx) => {
      for (let room = 0; room < OPEN_ROWS_MAX; room++)
        await onboarding.insert(tx, {
          jid: `telegram:${room}`,
          status: 'queued',
          created: '2025-01-01T00:00:00.000Z',
          folder: `f${room}`,
          position: room + 1,
          attempts: 0,
        })
    })
    assert.equal(await on.write('telegram:new', 'hello'), undefined)
    assert.equal(await on.row('telegram:new'), undefined)
  })
})
