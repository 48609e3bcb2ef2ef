import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import { accounts } from '../core/people/accounts.ts'
import { createSession } from '../core/people/sessions.ts'
import { costLog } from '../core/turns/costs.ts'
import { timestamp } from '../lib/clock.ts'
import { accountsResource } from './accounts.ts'
import { aclMembershipResource } from './acl-membership.ts'
import { identitiesResource } from './identities.ts'
import { usersResource } from './users.ts'

const { list, show } = accountsResource.verbs
const { link } = identitiesResource.verbs

async function addAccount({ host }: TestHost, sub: string, name?: string, email?: string): Promise<void> {
  const now = timestamp(host.clock.now())
  const text = { ...(name === undefined ? {} : { name }), ...(email === undefined ? {} : { email }) }
  const row = { sub, issuer: 'local', subject: sub, ...text, email_verified: false, created_at: now, signed_in_at: now }
  await host.engine.transaction((tx) => accounts.insert(tx, row))
}

onEveryEngine('the list of people', (engine) => {
  test('has one row for the accounts of a person, with roles, grants, sessions and spending', async (t) => {
    const on = await testHost(t, engine)
    const { host, cli, clock } = on
    await on.groups('main', 'team')
    await addAccount(on, 'github:1', 'Ada', 'ada@x.example')
    clock.advance(1000)
    await addAccount(on, 'oidc:x/9')
    const { id } = await cli.call(link, { sub: 'oidc:x/9', name: 'Ada L.' })
    clock.advance(1)
    await cli.call(link, { sub: 'github:1', id })
    await on.operator('oidc:x/9')
    await on.grant('github:1', 'admin', 'team/**')
    await on.grant('oidc:x/9', 'interact', 'team')
    await cli.call(usersResource.verbs.set_budget, { sub: 'oidc:x/9', daily: 50 })
    const times = { kind: 'browser', method: 'link', idleMs: 1000, maxMs: 5000 } as const
    await host.engine.transaction(async (tx) => {
      await createSession(tx, host, { sub: 'oidc:x/9', ...times })
      await createSession(tx, host, { sub: 'oidc:x/9', ...times, idleMs: 5000 })
      const cost = { folder: 'team', model: 'm', input_tokens: 1, output_tokens: 1, user_sub: 'oidc:x/9' }
      await costLog.insert(tx, { ...cost, turn_id: 'a', cost_cents: 7, recorded_at: timestamp(clock.now()) })
    })
    clock.advance(1000)
    const { people } = await cli.call(list, {})
    const [ada] = people
    assert.deepEqual(people, [
      {
        sub: 'oidc:x/9',
        name: 'Ada L.',
        email: 'ada@x.example',
        subs: ['oidc:x/9', 'github:1'],
        roles: ['role:operator'],
        is_operator: true,
        grants: 2,
        signed_in_at: '2026-01-01T00:00:01.000Z',
        sessions: 1,
        cap: 50,
        spent: 7,
      },
    ])
    for (const sub of ['oidc:x/9', 'github:1']) {
      const shown = await cli.call(show, { sub })
      assert.deepEqual(shown.person, ada)
      assert.deepEqual(
        shown.accounts.map((account) => account.sub),
        ['oidc:x/9', 'github:1'],
      )
    }
    await assert.rejects(cli.call(show, { sub: 'github:2' }), isRefusal('not_found', 'there is no person github:2'))
  })

  test('includes people who never signed in, but no folders, roles, services and globs', async (t) => {
    const on = await testHost(t, engine)
    const { cli } = on
    await on.groups('main', 'team', 'team/a')
    await on.grant('telegram:7', 'interact', 'team')
    await on.grant('zulip:1', 'interact', 'team')
    for (const principal of ['github:*', '**', 'service:x', 'folder:team', 'role:x'])
      await on.grant(principal, 'interact', 'team')
    await on.operator('local:op')
    await cli.call(aclMembershipResource.verbs.add, { subject: 'role:x', role: 'role:member' })
    await cli.call(usersResource.verbs.set_budget, { sub: 'github:3', daily: 1 })
    const { people, next } = await cli.call(list, {})
    assert.deepEqual(
      people.map(({ sub }) => sub),
      ['github:3', 'local:op', 'telegram:7', 'zulip:1'],
    )
    assert.equal(next, undefined)
  })

  test('is paged, and a person with several accounts is on one page only', async (t) => {
    const on = await testHost(t, engine)
    const { cli, clock } = on
    for (let n = 10; n < 22; n++) await addAccount(on, `github:${n}`)
    const { id } = await cli.call(link, { sub: 'github:20' })
    for (const sub of ['github:11', 'github:15']) {
      clock.advance(1)
      await cli.call(link, { sub, id })
    }
    const found: string[] = []
    let after: string | undefined
    let pages = 0
    do {
      const page = await cli.call(list, { limit: 3, after })
      assert.ok(page.people.length <= 3)
      found.push(...page.people.map(({ sub }) => sub))
      after = page.next
      pages++
    } while (after !== undefined)
    const others = [12, 13, 14, 16, 17, 18, 19, 21].map((n) => `github:${n}`)
    assert.deepEqual(found, ['github:10', 'github:20', ...others])
    assert.equal(pages, 4)
    await assert.rejects(cli.call(list, { after: 'W10' }), isRefusal('invalid', 'after is not a cursor'))
  })

  test('finds people by part of an account, name or address, in any case, once each', async (t) => {
    const on = await testHost(t, engine)
    const { cli, clock } = on
    await addAccount(on, 'github:1', 'Ada Lovelace', 'ada@x.example')
    await addAccount(on, 'github:2', 'Bob')
    await addAccount(on, 'oidc:x/1', 'ADA at work')
    const { id } = await cli.call(link, { sub: 'oidc:x/1', name: 'The countess' })
    clock.advance(1)
    await cli.call(link, { sub: 'github:1', id })
    await addAccount(on, 'github:3')
    await cli.call(link, { sub: 'github:3', id })
    await on.grant('telegram:user/55', 'interact', 'team')
    const search = async (text: string) => (await cli.call(list, { search: text })).people.map(({ sub }) => sub)
    for (const text of ['ada', 'LOVELACE', 'x.example', 'countess', 'oidc'])
      assert.deepEqual(await search(text), ['oidc:x/1'], text)
    assert.deepEqual(await search('GITHUB'), ['oidc:x/1', 'github:2'])
    assert.deepEqual(await search('user/5'), ['telegram:user/55'])
    for (const text of ['%', '_', '!', "'"]) assert.deepEqual(await search(text), [], text)
  })

  test('is for operators; people see themselves', async (t) => {
    const on = await testHost(t, engine)
    await addAccount(on, 'github:1')
    await addAccount(on, 'github:2')
    const caller = { kind: 'person', sub: 'github:1', session: 's' } as const
    const ada = on.as(caller, 'dash')
    assert.equal((await ada.call(show, { sub: 'github:1' })).person.sub, 'github:1')
    await assert.rejects(ada.call(show, { sub: 'github:2' }), isRefusal('forbidden'))
    await assert.rejects(ada.call(list, {}), isRefusal('forbidden'))
    await assert.rejects(on.as(person('github:1')).call(list, {}), isRefusal('forbidden'))
  })
})
