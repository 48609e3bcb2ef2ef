import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { auditedCalls } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person } from '../../test/support/host.ts'
import { openOnboardingTest } from '../../test/support/onboarding.ts'
import { acl } from '../core/access/acl.ts'
import type { Caller } from '../core/access/caller.ts'
import { groups } from '../core/groups/groups.ts'
import { groupDirs } from '../core/layout.ts'
import { prepareFolder } from '../core/people/onboarding-admission.ts'
import { gateAdmissions } from '../core/people/onboarding-gates.ts'
import { routes } from '../core/routing/routes.ts'
import { groupsResource } from './groups.ts'
import { onboardingResource } from './onboarding.ts'

const { list, queue, update, request, own, admit } = onboardingResource.verbs
const JID = 'telegram:42'
const signedIn = (sub: string): Caller => ({ kind: 'person', sub, session: 's1' })

onEveryEngine('a decision on a chat that asks for a folder', (engine) => {
  test('approves it with the folder that it asked for, outside the limits of gates', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.ask(JID, 'team/ada')
    const row = await on.cli.call(update, { jid: JID, action: 'approve' })
    assert.deepEqual([row.status, row.folder, row.prepared], ['approved', 'team/ada', undefined])
    const { group, target, grant, counted } = await on.host.engine.read(async (tx) => ({
      group: await groups.find(tx, { folder: 'team/ada' }),
      target: (await routes.list(tx)).map(({ match, target }) => `${match} -> ${target}`),
      grant: await acl.find(tx, { principal: 'telegram:7', scope: 'team/ada/**' }),
      counted: await gateAdmissions.count(tx),
    }))
    assert.deepEqual(
      [group?.name, target, grant?.action, counted],
      ['ada', ['platform=telegram room=42 -> team/ada'], 'admin', 0],
    )
    assert.match((await on.told(JID)).join(), /^You are in: this chat belongs to the folder team\/ada now/)
    for (const action of ['approve', 'refuse', 'reprompt'])
      await assert.rejects(on.cli.call(update, { jid: JID, action }), isRefusal('conflict', 'approved already'))
    // Without its folder the chat can be asked again.
    await on.cli.call(groupsResource.verbs.remove, { folder: 'team/ada', purge: true })
    assert.equal((await on.cli.call(update, { jid: JID, action: 'reprompt' })).status, 'awaiting_message')
  })

  test('lets a person of the platform administer the folder of a chat of another account, but no other person', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    const admins: Record<string, [sender: string, isAdmin: boolean]> = {
      a: ['telegram:7', true],
      b: ['telegram-work:7', true],
      c: ['telegram-home:7', false],
      d: ['slack:7', false],
    }
    for (const [folder, [sender, isAdmin]] of Object.entries(admins)) {
      const jid = `telegram-work:user/${folder}`
      await on.ask(jid, folder, sender)
      await on.cli.call(update, { jid, action: 'approve' })
      const key = { principal: sender, scope: `${folder}/**` }
      const grant = await on.host.engine.read((tx) => acl.find(tx, key))
      assert.equal(grant?.action, isAdmin ? 'admin' : undefined, sender)
    }
  })

  test('approves it with another folder, and needs one if it asked for none', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main', 'team')
    await on.write(JID, 'hello')
    await assert.rejects(on.cli.call(update, { jid: JID, action: 'approve' }), isRefusal('invalid', 'has not asked'))
    await assert.rejects(
      on.cli.call(update, { jid: JID, action: 'approve', folder: 'team' }),
      isRefusal('conflict', 'the folder team is not available'),
    )
    assert.equal((await on.cli.call(update, { jid: JID, action: 'approve', folder: 'guests' })).folder, 'guests')
  })

  test('refuses it or asks for a name again, and tells the chat', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.ask(JID, 'ada')
    const refused = await on.cli.call(update, { jid: JID, action: 'refuse' })
    assert.deepEqual([refused.status, refused.folder, refused.position], ['refused', undefined, undefined])
    assert.equal(await on.write(JID, 'ada'), undefined)
    assert.equal((await on.cli.call(update, { jid: JID, action: 'reprompt' })).status, 'awaiting_message')
    assert.deepEqual(await on.told(JID), [
      'Your request for a folder was refused.',
      'To ask for a folder, reply with a name for it, such as ada or team/ada.',
    ])
    assert.match((await on.write(JID, 'ada')) ?? '', /is noted/)
    await assert.rejects(on.cli.call(update, { jid: 'telegram:2', action: 'refuse' }), isRefusal('not_found'))
    await assert.rejects(on.cli.call(update, { jid: JID, action: 'ban' }), isRefusal('invalid', 'action'))
  })

  test('removes files that were prepared for it', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.ask(JID, 'ada')
    const layout = on.host.layout ?? assert.fail('no files')
    const row = (await on.row(JID)) ?? assert.fail('no row')
    assert.equal(await prepareFolder({ engine: on.host.engine, layout }, row, 'ada'), true)
    assert.equal(existsSync(groupDirs(layout, 'ada').home), true)
    await on.cli.call(update, { jid: JID, action: 'refuse' })
    assert.equal(existsSync(groupDirs(layout, 'ada').home), false)
    assert.equal((await on.row(JID))?.prepared, undefined)
  })

  test('is made from a queue that is paged in the order of the requests', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    for (const n of [3, 1, 2]) await on.ask(`telegram:${n}`, `guests/${n}`)
    await on.cli.call(update, { jid: 'telegram:1', action: 'refuse' })
    const first = await on.cli.call(queue, { limit: 1 })
    const rest = await on.cli.call(queue, { limit: 1, after: first.next })
    assert.deepEqual(
      [...first.onboarding, ...rest.onboarding].map(({ jid }) => jid),
      ['telegram:3', 'telegram:2'],
    )
    assert.equal(rest.next, undefined)
    for (const after of ['W10', 'WyJhIiwxXQ'])
      await assert.rejects(on.cli.call(queue, { after }), isRefusal('invalid', 'after is not a cursor'))
  })

  test('needs the rights of an operator', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main', 'team')
    await on.ask(JID, 'ada')
    await on.grant('github:1', 'admin', 'team/**')
    await on.grant('github:2', 'interact', '**')
    await on.grant('github:3', 'mcp:onboarding.list', '**')
    for (const caller of [person('github:1'), person('github:2'), agent('team')]) {
      await assert.rejects(on.as(caller).call(list, {}), isRefusal('forbidden'))
      for (const action of ['approve', 'refuse', 'reprompt'])
        await assert.rejects(on.as(caller).call(update, { jid: JID, action }), isRefusal('forbidden'))
    }
    // Reading does not include deciding.
    assert.equal((await on.as(person('github:3')).call(list, {})).onboarding.length, 1)
    await assert.rejects(
      on.as(person('github:3')).call(update, { jid: JID, action: 'approve' }),
      isRefusal('forbidden'),
    )
    assert.equal((await on.row(JID))?.status, 'queued')
    for (const caller of [person('github:1'), signedIn('github:1'), agent('main')])
      await assert.rejects(on.as(caller).call(admit, { jid: JID }), isRefusal('forbidden'))
    await on.operator('github:9')
    assert.equal((await on.as(person('github:9')).call(update, { jid: JID, action: 'refuse' })).status, 'refused')
  })
})

onEveryEngine('a signed-in person without a grant', (engine) => {
  test('asks for a folder, waits in the queue and is admitted', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('*', 1)
    const [ada, bob] = [on.as(signedIn('local:ada'), 'dash'), on.as(signedIn('local:bob'), 'dash')]
    assert.deepEqual(await ada.call(own, {}), { ahead: 0, has_grant: false })
    assert.match((await ada.call(request, { folder: 'main' })).fault ?? '', /^The name main is not available/)
    assert.equal((await ada.call(request, { folder: ' ada ' })).fault, undefined)
    assert.equal((await bob.call(request, { folder: 'bob' })).fault, undefined)
    assert.equal((await bob.call(own, {})).ahead, 1)
    await assert.rejects(ada.call(request, { folder: 'more' }), isRefusal('conflict', 'asked for a folder already'))
    await on.admit()
    const { row, has_grant } = await ada.call(own, {})
    assert.deepEqual([row?.status, row?.folder, has_grant], ['approved', 'ada', true])
    assert.deepEqual([(await bob.call(own, {})).row?.status, (await bob.call(own, {})).ahead], ['queued', 0])
    const grant = await on.host.engine.read((tx) => acl.find(tx, { principal: 'local:ada', scope: 'ada/**' }))
    assert.deepEqual([grant?.action, grant?.granted_by], ['admin', 'onboarding'])
    assert.deepEqual(await on.told('local:ada'), [])
    await assert.rejects(ada.call(request, { folder: 'more' }), isRefusal('forbidden', 'have access'))
  })

  test('needs a session for it, and no wildcards in the account', async (t) => {
    const on = await openOnboardingTest(t, engine)
    for (const caller of [person('local:ada'), agent('main'), signedIn('oidc:x/*')])
      await assert.rejects(on.as(caller).call(request, { folder: 'ada' }), isRefusal('forbidden'))
  })

  test('leaves one audit row per request and per decision', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('*', 1)
    const audited = await auditedCalls(on, async () => {
      await on.as(signedIn('local:ada'), 'dash').call(request, { folder: 'not a name' })
      await on.as(signedIn('local:ada'), 'dash').call(request, { folder: 'ada' })
      await on.admit()
      await on.admit()
    })
    assert.deepEqual(
      audited.map(({ action }) => action),
      ['onboarding.request', 'onboarding.admit'],
    )
  })
})
