// Invites: callers can give away only access that they have. See docs/decisions.md#invites.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { auditedCalls, breakAudit, wholeStore } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import type { Caller } from '../core/access/caller.ts'
import { invitesResource } from './invites.ts'

const { list, create, revoke } = invitesResource.verbs
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
