// Invites: callers can give away only access that they have. See docs/decisions.md#invites.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { auditedCalls, breakAudit, wholeStore } from '../../test/support/audit.ts'
import {
  agent,
  freshStore,
  isRefusal,
  onEveryEngine,
  person,
  type TestHost,
  testHost,
} from '../../test/support/host.ts'
import { acl } from '../core/access/acl.ts'
import type { Caller } from '../core/access/caller.ts'
import { audit } from '../registry/audit.ts'
import { groupsResource } from './groups.ts'
import { invitesResource } from './invites.ts'

const { list, create, revoke, preview, redeem } = invitesResource.verbs
const JAN_1 = '2026-01-01T00:00:00.000Z'
const admin = person('github:1')
const operator = person('github:op')

async function openHost(...[t, engine]: Parameters<typeof testHost>): Promise<TestHost> {
  const at = await testHost(t, engine)
  await at.groups('main', 'team', 'team/a', 'other')
  await at.grant('github:1', 'admin', 'team/**')
  await at.operator('github:op')
  return at
}

onEveryEngine('invites', (engine) => {
  test('the token is shown once and stored as a hash', async (t) => {
    const at = await openHost(t, engine)
    const { token, ...rest } = await at.as(admin).call(create, { target_glob: 'team/**' })
    assert.match(token, /^[A-Za-z0-9_-]{43}$/)
    assert.deepEqual(rest, {
      target_glob: 'team/**',
      max_uses: 1,
      accept_url: `http://localhost:8080/invite/${token}`,
    })
    const store = await wholeStore(at)
    assert.ok(store.includes(createHash('sha256').update(token).digest('hex')))
    assert.ok(!store.includes(token))
    assert.deepEqual((await at.as(admin).call(list, {})).invites, [
      {
        ...{ token_id: token.slice(0, 12), target_glob: 'team/**', issued_by_sub: 'github:1' },
        ...{ issued_at: JAN_1, max_uses: 1, used_count: 0 },
      },
    ])
  })

  const COVERED: Record<
    string,
    { caller: Caller; grants?: [string, string, ('allow' | 'deny')?][]; allowed: string[]; refused: string[] }
  > = {
    'an agent may invite to its own subtree': {
      caller: agent('team'),
      allowed: ['team', 'team/a', 'team/**', 'team/*/x', 'team/a/**', 'team/new'],
      refused: ['**', '*', 'other', 'tea?', 'team*', '*/a', '[t]eam', 'teams', 'main'],
    },
    'the root may invite to everything': { caller: agent('main'), allowed: ['**', '*', 'other/**'], refused: [] },
    'an operator may invite to everything': { caller: operator, allowed: ['**', '*', 'other/**'], refused: [] },
    'an admin may invite to the folders they administer': {
      caller: admin,
      allowed: ['team', 'team/**', 'team/a', 'team/*/x'],
      refused: ['**', '*', 'other', 'team*', 'teams/**'],
    },
    'an admin of one folder may invite to that one': {
      caller: person('github:3'),
      grants: [['admin', 'team']],
      allowed: ['team'],
      refused: ['team/**', 'team/a', 'team/*'],
    },
    'an admin with a denied subfolder may not invite to the whole subtree': {
      caller: person('github:3'),
      grants: [
        ['admin', 'team/**'],
        ['admin', 'team/a', 'deny'],
      ],
      allowed: ['team', 'team/b'],
      refused: ['team/**', 'team/a', 'team/*'],
    },
    'a grant of the tool alone is not enough': {
      caller: person('github:3'),
      grants: [['mcp:*', '**']],
      allowed: [],
      refused: ['team', '**'],
    },
    'a caller without the tool may not invite': {
      caller: person('github:3'),
      grants: [
        ['admin', 'team/**'],
        ['mcp:invite_create', '**', 'deny'],
      ],
      allowed: [],
      refused: ['team', 'team/a'],
    },
    'a stranger may not invite': { caller: person('github:4'), allowed: [], refused: ['team', 'none', '**'] },
  }
  for (const [sentence, { caller, grants = [], allowed, refused }] of Object.entries(COVERED)) {
    test(sentence, async (t) => {
      const at = await openHost(t, engine)
      for (const [action, scope, effect] of grants) await at.grant('github:3', action, scope, effect)
      for (const target_glob of allowed)
        assert.equal((await at.as(caller).call(create, { target_glob })).target_glob, target_glob)
      for (const target_glob of refused)
        await assert.rejects(
          at.as(caller).call(create, { target_glob }),
          isRefusal('forbidden', `does not cover ${target_glob}`),
        )
      assert.equal((await at.cli.call(list, { limit: 1000 })).invites.length, allowed.length)
    })
  }

  test('expires_at is stored in UTC and must be in the future', async (t) => {
    const at = await openHost(t, engine)
    const createUntil = (expires_at: string) =>
      at.as(admin).call(create, { target_glob: 'team', expires_at, max_uses: 2 })
    assert.equal((await createUntil('2026-01-01T02:00:00+01:00')).expires_at, '2026-01-01T01:00:00.000Z')
    const [row] = (await at.as(admin).call(list, {})).invites
    assert.deepEqual([row?.expires_at, row?.max_uses], ['2026-01-01T01:00:00.000Z', 2])
    for (const past of [JAN_1, '2026-01-01T00:59:59+01:00', '2020-01-01T00:00:00Z'])
      await assert.rejects(createUntil(past), isRefusal('invalid', 'expires_at is in the past'))
  })

  test('callers see the invites they issued, and operators all, newest first', async (t) => {
    const at = await openHost(t, engine)
    for (const caller of [admin, agent('team'), operator]) {
      await at.as(caller).call(create, { target_glob: 'team' })
      at.clock.advance(1000)
    }
    const seen = async (caller: Caller, input = {}) =>
      (await at.as(caller).call(list, input)).invites.map(({ issued_by_sub }) => issued_by_sub)
    assert.deepEqual(await seen(operator), ['github:op', 'folder:team', 'github:1'])
    assert.deepEqual(await seen(operator, { issued_by: 'folder:team' }), ['folder:team'])
    assert.deepEqual(await seen(admin), ['github:1'])
    assert.deepEqual(await seen(admin, { issued_by: 'github:op' }), [])
    assert.deepEqual(await seen(person('github:2')), [])
  })

  test('an invite can be revoked once, by id or whole token, and stays listed', async (t) => {
    const at = await openHost(t, engine)
    const tokens = [
      (await at.as(admin).call(create, { target_glob: 'team' })).token,
      (await at.as(admin).call(create, { target_glob: 'team' })).token,
    ]
    await at.as(admin).call(revoke, { token_id: tokens[0]?.slice(0, 12) })
    await at.as(admin).call(revoke, { token_id: tokens[1] })
    const { invites } = await at.as(admin).call(list, {})
    assert.deepEqual(
      invites.map(({ revoked_at }) => revoked_at),
      [JAN_1, JAN_1],
    )
    for (const token_id of tokens)
      await assert.rejects(at.as(admin).call(revoke, { token_id }), isRefusal('not_found', 'revoked already'))
    for (const token_id of ['none', tokens[0]?.slice(0, 11), `x${tokens[0]}`])
      await assert.rejects(at.as(admin).call(revoke, { token_id }), isRefusal('not_found', 'there is no such invite'))
  })

  test('invites of others are not found, except by operators', async (t) => {
    const at = await openHost(t, engine)
    const { token } = await at.as(admin).call(create, { target_glob: 'team' })
    await at.grant('github:2', 'admin', 'team/**')
    for (const caller of [person('github:2'), agent('team')])
      await assert.rejects(at.as(caller).call(revoke, { token_id: token }), isRefusal('not_found', 'no such invite'))
    await at.as(operator).call(revoke, { token_id: token })
    for (const caller of [person('github:2'), agent('team')])
      await assert.rejects(at.as(caller).call(revoke, { token_id: token }), isRefusal('not_found', 'no such invite'))
  })

  test('an operator does not find invites to denied folders', async (t) => {
    const at = await openHost(t, engine)
    const { token } = await at.as(admin).call(create, { target_glob: 'team/*' })
    await at.as(operator).call(create, { target_glob: '**' })
    await at.grant('github:op', '*', 'team/**', 'deny')
    const { invites } = await at.as(operator).call(list, {})
    assert.deepEqual(
      invites.map(({ target_glob }) => target_glob),
      ['**'],
    )
    await assert.rejects(at.as(operator).call(revoke, { token_id: token }), isRefusal('not_found', 'no such invite'))
  })

  test('a glob that is invalid in an access row is refused', async (t) => {
    const at = await openHost(t, engine)
    for (const target_glob of ['', 'team/*\n', 'team/ *', 'team//*', 'team/[', 'team/../*', `team/${'*'.repeat(251)}`])
      await assert.rejects(at.as(operator).call(create, { target_glob }), isRefusal('invalid', 'target_glob'))
  })

  test('each change and each refusal has one audit row without the token, and nothing changes without it', async (t) => {
    const at = await openHost(t, engine)
    let token = ''
    const calls = await auditedCalls(at, async () => {
      token = (await at.as(admin).call(create, { target_glob: 'team/a' })).token
      await at
        .as(admin)
        .call(create, { target_glob: 'other' })
        .catch(() => {})
      await at.as(admin).call(list, {})
      await at.as(admin).call(revoke, { token_id: token })
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
      ['invites.create team/a ok', 'invites.create other denied', `invites.revoke ${token.slice(0, 12)} ok`],
    )
    assert.ok(!(await wholeStore(at)).includes(token))
    await breakAudit(at)
    await assert.rejects(at.as(admin).call(create, { target_glob: 'team' }), /audit/)
    assert.equal((await at.as(admin).call(list, {})).invites.length, 1)
  })
})

const signedIn = (sub: string): Caller => ({ kind: 'person', sub, session: 'family' })

/** Redeems as this person; returns whether the grant is there now. */
async function tryRedeem(at: TestHost, sub: string, token: string): Promise<boolean> {
  try {
    await at.as(signedIn(sub), 'dash').call(redeem, { token })
  } catch (error) {
    isRefusal('not_found', 'this invite is not valid')(error)
  }
  return (await at.host.engine.read((tx) => acl.find(tx, { principal: sub, granted_by: 'invite' }))) !== undefined
}

onEveryEngine('an invite that is redeemed', (engine) => {
  test('grants the folders once per person', async (t) => {
    const at = await openHost(t, engine)
    const { token } = await at.as(admin).call(create, { target_glob: 'team/**', max_uses: 2 })
    const ada = at.as(signedIn('local:ada'), 'dash')
    assert.deepEqual(await ada.call(preview, { token }), {
      target_glob: 'team/**',
      issued_by: 'github:1',
      is_redeemed: false,
    })
    const audited = await auditedCalls(at, async () => {
      assert.equal((await ada.call(redeem, { token })).is_new, true)
      assert.equal((await ada.call(redeem, { token })).is_new, false)
    })
    assert.deepEqual(
      audited.map(({ action, key }) => [action, key]),
      [['invites.redeem', token.slice(0, 12)]],
    )
    assert.ok(!(await wholeStore(at)).includes(token))
    const row = await at.host.engine.read((tx) => acl.find(tx, { principal: 'local:ada' }))
    assert.deepEqual(row, {
      ...{ principal: 'local:ada', action: 'admin', scope: 'team/**', effect: 'allow', params: '', predicate: '' },
      ...{ granted_by: 'invite', granted_at: JAN_1 },
    })
    assert.equal((await at.as(admin).call(list, {})).invites[0]?.used_count, 1)
    assert.equal((await ada.call(preview, { token })).is_redeemed, true)
    // Accepting it again does not restore a grant that was taken away.
    await at.ungrant('local:ada', 'admin', 'team/**')
    assert.equal((await ada.call(redeem, { token })).is_new, false)
    assert.equal(await at.host.engine.read((tx) => acl.find(tx, { principal: 'local:ada' })), undefined)
  })

  test('is used exactly as often as allowed by parallel people of two processes', async (t) => {
    const store = await freshStore(t, engine)
    const [at, other] = [await testHost(t, engine, store), await testHost(t, engine, store)]
    const { token } = await at.cli.call(create, { target_glob: 'team/**', max_uses: 3 })
    const people = Array.from({ length: 20 }, (_, n) => `local:p${n}`)
    // Each tries twice, in both processes.
    const redeemed = await Promise.all(
      people.map(async (sub) => (await Promise.all([tryRedeem(at, sub, token), tryRedeem(other, sub, token)])).at(-1)),
    )
    const granted = await at.host.engine.read((tx) => acl.list(tx, { granted_by: 'invite' }))
    assert.equal(granted.length, 3)
    assert.ok(redeemed.filter(Boolean).length <= 3)
    assert.equal((await at.cli.call(list, {})).invites[0]?.used_count, 3)
  })

  test('is refused alike if it is unknown, expired, used up or revoked', async (t) => {
    const at = await openHost(t, engine)
    const mint = async (over: object = {}) =>
      (await at.cli.call(create, { target_glob: 'team/**', max_uses: 1, ...over })).token
    const [expired, used, revoked] = [await mint({ expires_at: '2026-01-01T00:01:00Z' }), await mint(), await mint()]
    await at.cli.call(revoke, { token_id: revoked })
    assert.equal(await tryRedeem(at, 'local:first', used), true)
    at.clock.advance(59_999)
    assert.deepEqual(await at.as(signedIn('local:x')).call(preview, { token: expired }), {
      target_glob: 'team/**',
      issued_by: 'The operator of this server',
      is_redeemed: false,
    })
    at.clock.advance(1)
    const isInvalid = isRefusal('not_found', /^this invite is not valid; ask the person who sent it for a new one$/)
    const ada = at.as(signedIn('local:ada'), 'dash')
    for (const token of ['unknown', expired, used, revoked, ':token', '']) {
      await assert.rejects(ada.call(preview, { token }), isInvalid)
      await assert.rejects(ada.call(redeem, { token }), isInvalid)
    }
    assert.equal(await at.host.engine.read((tx) => acl.find(tx, { principal: 'local:ada' })), undefined)
  })

  test('is refused once its issuer has lost the authority, and the audit row says so', async (t) => {
    const at = await openHost(t, engine)
    await at.groups('gone')
    const ada = at.as(signedIn('local:ada'), 'dash')
    const byAdmin = (await at.as(admin).call(create, { target_glob: 'team/**', max_uses: 5 })).token
    const byAgent = (await at.as(agent('gone')).call(create, { target_glob: 'gone/**' })).token
    const byDenied = (await at.as(agent('team')).call(create, { target_glob: 'team/a' })).token
    await at.ungrant('github:1', 'admin', 'team/**')
    await at.cli.call(groupsResource.verbs.remove, { folder: 'gone' })
    await at.grant('folder:team', 'mcp:invite_create', '**', 'deny')
    for (const [token, reason] of [
      [byAdmin, 'github:1 no longer has authority over team/**'],
      [byAgent, 'the folder gone that issued it no longer exists'],
      [byDenied, 'folder:team no longer has authority over team/a'],
    ] as const) {
      await assert.rejects(ada.call(preview, { token }), isRefusal('not_found', 'this invite is not valid'))
      await assert.rejects(ada.call(redeem, { token }), isRefusal('forbidden', reason))
    }
    const denied = await at.host.engine.read((tx) => audit.list(tx, { action: 'invites.redeem' }))
    assert.deepEqual(
      denied.map(({ outcome, actor }) => [outcome, actor]),
      Array.from({ length: 3 }, () => ['denied', 'local:ada']),
    )
    await at.grant('github:1', 'admin', 'team/**')
    assert.equal(await tryRedeem(at, 'local:ada', byAdmin), true)
  })

  test('needs the session of one person', async (t) => {
    const at = await openHost(t, engine)
    const { token } = await at.cli.call(create, { target_glob: 'team/**' })
    for (const caller of [
      person('local:ada'),
      agent('team'),
      signedIn('oidc:x/*'),
      { kind: 'host', sub: 'cli' } as const,
    ])
      await assert.rejects(at.as(caller).call(redeem, { token }), isRefusal('forbidden'))
    assert.equal((await at.cli.call(list, {})).invites[0]?.used_count, 0)
  })

  test('grants nothing if the call cannot be audited', async (t) => {
    const at = await openHost(t, engine)
    const { token } = await at.cli.call(create, { target_glob: 'team/**' })
    await breakAudit(at)
    await assert.rejects(at.as(signedIn('local:ada'), 'dash').call(redeem, { token }))
    assert.equal(await at.host.engine.read((tx) => acl.find(tx, { principal: 'local:ada' })), undefined)
    assert.equal((await at.cli.call(list, {})).invites[0]?.used_count, 0)
  })
})
