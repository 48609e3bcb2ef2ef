// Finds, describes and purges the rows that refer to a group, on both engines.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { everyRow } from '../../../test/support/manifest.ts'
import type { Tx } from '../../store/engine.ts'
import { acl, aclMembership } from '../access/acl.ts'
import { networkRules } from '../access/allowlist.ts'
import { pendingActions } from '../access/approvals.ts'
import { chats } from '../chats/chats.ts'
import { routeTokens } from '../links/route-tokens.ts'
import { webHosts } from '../links/web-hosts.ts'
import { webRoutes } from '../links/web-routes.ts'
import { invites } from '../people/invites.ts'
import { onboardingGates } from '../people/onboarding-gates.ts'
import { engagements } from '../routing/engagements.ts'
import { routes } from '../routing/routes.ts'
import { secrets } from '../secrets/secrets.ts'
import { conversations } from '../turns/conversations.ts'
import {
  describeReferences,
  findFolderReferences,
  findOrphanedReferences,
  findReferencesOf,
  purgeFolderReferences,
  storeReader,
} from './folder-references.ts'
import { groups } from './groups.ts'

const NOW = '2026-01-01T00:00:00.000Z'

/** Adds a row of every kind that refers to the folder; `at` makes the keys of two folders differ. */
async function nameEverywhere(tx: Tx, folder: string, at: number): Promise<void> {
  await routeTokens.append(tx, {
    token_hash: new Uint8Array([at]),
    jid: `web:${folder}`,
    owner_folder: folder,
    target_folder: folder,
    created_at: NOW,
  })
  await webRoutes.append(tx, { path_prefix: `/pub/${folder}/`, access: 'public', folder, created_at: NOW })
  await webHosts.append(tx, { hostname: `h${at}.example`, folder })
  await routes.append(tx, { seq: 0, match: `room=${at}`, target: `folder:${folder}#observe` })
  await secrets.append(tx, {
    scope_kind: 'folder',
    owner: folder,
    key: 'API_KEY',
    value: new Uint8Array(),
    created_at: NOW,
  })
  await networkRules.append(tx, { folder, target: 'a.example', created_at: NOW, created_by: 'cli' })
  const grant = { action: 'admin', effect: 'allow', params: '', predicate: '', granted_at: NOW } as const
  await acl.append(tx, { ...grant, principal: `github:${at}`, scope: folder })
  await acl.append(tx, { ...grant, principal: `github:${at}`, scope: `${folder}/**` })
  await acl.append(tx, { ...grant, principal: `folder:${folder}`, scope: '**' })
  const invite = { issued_by_sub: 'cli', issued_at: NOW, max_uses: 1, used_count: 0 }
  await invites.append(tx, { ...invite, token_hash: new Uint8Array([at]), token_id: `live${at}`, target_glob: folder })
  await invites.append(tx, {
    ...invite,
    token_hash: new Uint8Array([at, at]),
    token_id: `revoked${at}`,
    target_glob: folder,
    revoked_at: NOW,
  })
  await onboardingGates.append(tx, { spec: folder, daily_limit: 1, enabled: true })
  const held = { folder, tool: 'send', args_hash: 'a', summary: '{}', held_at: NOW, updated_at: NOW }
  await pendingActions.append(tx, { ...held, id: `held${at}`, status: 'held' })
  await pendingActions.append(tx, { ...held, id: `done${at}`, status: 'released' })
  const conversation = { folder, waiting: 0, observed_seq: 0, updated_at: NOW }
  await conversations.append(tx, { ...conversation, topic: '', session_id: 's' })
  await conversations.append(tx, { ...conversation, topic: 'idle' })
  await engagements.append(tx, { jid: `x:e${at}`, topic: '', engaged_folder: folder, engaged_until: NOW })
  await chats.append(tx, { jid: `x:s${at}`, sticky_folder: folder })
}

const tasksOf = (folder: string): string => [0, 1, 2, 3, 4].map((at) => `${folder}-mem-${at}`).join(', ')

const STAYING = (folder: string, at: number): string[] => [
  `1 route (room=${at})`,
  `5 tasks (${tasksOf(folder)})`,
  '1 secret (API_KEY)',
  '1 network rule (a.example)',
  `3 grants (folder:${folder} admin **, github:${at} admin ${folder}, github:${at} admin ${folder}/**)`,
  '1 role (role:member)',
  `1 invite (live${at})`,
  `1 gate (${folder})`,
  `1 approval (held${at})`,
  '1 session (main topic)',
  `1 engaged chat (x:e${at})`,
  `1 chat set by @ (x:s${at})`,
]

onEveryEngine('rows that name a group by its folder', (engine) => {
  test('are split into deleted and retained ones, and purged without touching other folders', async (t) => {
    const at = await testHost(t, engine)
    const { engine: store } = at.host
    await at.groups('main', 'other')
    await store.transaction((tx) => nameEverywhere(tx, 'other', 2))
    const before = await store.read(everyRow)
    await at.groups('team')
    await store.transaction((tx) => nameEverywhere(tx, 'team', 1))

    const named = await store.read((tx) => findFolderReferences(storeReader(tx), new Set(['team'])))
    assert.equal(describeReferences(named.ends), '1 link (web:team), 1 web route (/pub/team/), 1 web host (h1.example)')
    assert.deepEqual(describeReferences(named.stays), STAYING('team', 1).join(', '))
    assert.deepEqual(await store.read((tx) => findReferencesOf(tx, 'team')), named)
    assert.deepEqual(await store.read(findOrphanedReferences), [])

    await store.transaction((tx) => groups.remove(tx, { folder: 'team' }))
    const removed = await store.read((tx) => findFolderReferences(storeReader(tx), new Set(['team'])))
    assert.deepEqual(removed, { ends: [], stays: named.stays })
    assert.deepEqual(await store.read((tx) => findReferencesOf(tx, 'team')), removed)
    assert.deepEqual(await store.read(findOrphanedReferences), named.stays)

    const purged = await store.transaction((tx) => purgeFolderReferences(tx, 'team'))
    assert.deepEqual(purged, named.stays)
    assert.deepEqual(await store.read(findOrphanedReferences), [])
    assert.deepEqual(await store.transaction((tx) => purgeFolderReferences(tx, 'team')), [])
    const after = await store.read(everyRow)
    assert.deepEqual(
      before.filter((line) => !after.includes(line)),
      [],
    )
    // Decisions, messages and revoked rows stay as records; the rest of a chat row is not the group's.
    assert.deepEqual(
      after.filter((line) => !before.includes(line)).map((line) => line.slice(0, line.indexOf(' '))),
      ['chats', 'conversations', 'conversations', 'engagements', 'invites', 'pending_actions'],
    )
  })

  test('a grant on a subtree refers to its top only while the subtree has no other group', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a')
    await at.grant('github:1', 'admin', 'team/**')
    const grantsOf = async (): Promise<string[]> => {
      const left = await at.host.engine.read(findOrphanedReferences)
      return left.filter(({ kind }) => kind === 'grant').flatMap(({ names }) => names)
    }
    await at.host.engine.transaction((tx) => groups.remove(tx, { folder: 'team' }))
    assert.deepEqual(await grantsOf(), [])
    await at.host.engine.transaction((tx) => groups.remove(tx, { folder: 'team/a' }))
    assert.deepEqual(await grantsOf(), ['github:1 admin team/**'])
  })

  test('routes to a topic or by the name with a prefix refer to the group, and those to similar names do not', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a')
    const targets = ['team', 'team#observe', 'folder:team', 'folder:team#x', 'team/a', 'team-b', 'team/{sender}', 'te']
    await at.host.engine.transaction(async (tx) => {
      for (const [seq, target] of targets.entries()) await routes.append(tx, { seq, match: `room=${seq}`, target })
    })
    for (const folder of ['team', 'team/a', 'team/b']) {
      const found = await at.host.engine.read((tx) => findReferencesOf(tx, folder))
      const all = await at.host.engine.read((tx) => findFolderReferences(storeReader(tx), new Set([folder])))
      assert.deepEqual(found, all)
    }
    const { stays } = await at.host.engine.read((tx) => findReferencesOf(tx, 'team'))
    assert.deepEqual(stays.find(({ kind }) => kind === 'routes')?.names, ['room=0', 'room=1', 'room=2', 'room=3'])
  })

  test('rows for every folder, the instance or a person refer to no group', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.grant('folder:*', 'mcp:send', '**')
    await at.grant('github:1', 'admin', 'team*')
    await at.operator('github:2')
    await at.host.engine.transaction(async (tx) => {
      await networkRules.append(tx, { folder: '', target: 'a.example', created_at: NOW, created_by: 'cli' })
      await routes.append(tx, { seq: 0, match: '', target: 'builtin:drop' })
      await routes.append(tx, { seq: 1, match: '', target: 'people/{sender}' })
      await aclMembership.append(tx, { subject: 'role:team', role: 'role:member', added_at: NOW })
      const secret = { key: 'A', value: new Uint8Array(), created_at: NOW }
      await secrets.append(tx, { ...secret, scope_kind: 'user', owner: 'github:1' })
    })
    assert.deepEqual(await at.host.engine.read(findOrphanedReferences), [])
  })
})

test('lists at most five names', () => {
  const rows = (count: number) => [
    { folder: 'team', kind: 'links', names: Array.from({ length: count }, (_, at) => `${at}`) },
  ]
  assert.equal(describeReferences(rows(5)), '5 links (0, 1, 2, 3, 4)')
  assert.equal(describeReferences(rows(6)), '6 links (0, 1, 2, 3, 4, and 1 more)')
})
