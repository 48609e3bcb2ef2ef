// The verbs export and apply, on every engine.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../../test/support/host.ts'
import {
  applied,
  applyTo,
  atVersion,
  everythingElse,
  exportOf,
  keysOf,
  manifestVerb,
  SHAPES,
} from '../../../test/support/manifest.ts'
import { run } from '../../../test/support/sql.ts'
import { acl } from '../../core/access/acl.ts'
import { groups } from '../../core/groups/groups.ts'
import { hashToken } from '../../core/links/link-token.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { webHosts } from '../../core/links/web-hosts.ts'
import { webRoutes } from '../../core/links/web-routes.ts'
import { onboardingGates } from '../../core/people/onboarding-gates.ts'
import { routes } from '../../core/routing/routes.ts'
import { scheduledTasks, taskRunLogs } from '../../core/schedule/tasks.ts'
import { audit } from '../../registry/audit.ts'
import type { Tx } from '../../store/engine.ts'
import { writeManifest } from './yaml-writer.ts'

const THEN = '2025-05-05T05:05:05.000Z'
const TEAM = '  - {folder: team, name: Team, product: assistant, open: true}\n'
const group = (folder: string): string => `  - {folder: ${folder}, name: ${folder}, product: p, open: true}\n`
const routeTo = (target: string): string => `  - {seq: 0, match: '', target: ${target}}\n`
const TASK = { owner: 'main', chat_jid: 'main', prompt: 'go', context_mode: 'group', created_at: THEN } as const
const MAIN = '  - {folder: main, name: main, product: assistant, open: true}\n'

const write = ({ host }: TestHost, work: (tx: Tx) => Promise<void>) => host.engine.transaction(work)

function sectionOf(text: string, name: string): string {
  return new RegExp(`^${name}:[^]*?(?=^[a-z]|$(?![^]))`, 'm').exec(text)?.[0] ?? ''
}

async function audited({ host }: TestHost) {
  return (await host.engine.read((tx) => audit.list(tx))).filter(({ resource }) => resource === 'config')
}

onEveryEngine('export', (engine) => {
  test('writes the version and then every exported resource by name, empty ones as []', async (t) => {
    const svc = await testHost(t, engine)
    const text = await exportOf(svc)
    assert.deepEqual(text.match(/^\w+:.*$/gm), [
      'config_version: 1',
      'acl:',
      'acl_membership: []',
      'groups: []',
      'network_rules: []',
      'onboarding_gates: []',
      'proxyd_routes: []',
      'routes: []',
      'scheduled_tasks: []',
      'secrets: []',
      'settings: []',
      'web_hosts: []',
      'web_routes: []',
    ])
  })

  test('sorts rows by the manifest key, text by its bytes, and routes by seq and insertion', async (t) => {
    const svc = await testHost(t, engine)
    await write(svc, async (tx) => {
      for (const seq of [10, 2, -1, 0]) await routes.append(tx, { seq, match: '', target: 'main' })
      for (const target of ['b', 'B', 'a/b', 'a.b']) await routes.append(tx, { seq: 3, match: '', target })
      for (const spec of ['b', 'B', 'a/b', 'a.b'])
        await onboardingGates.append(tx, { spec, daily_limit: 1, enabled: true })
    })
    const text = await exportOf(svc)
    assert.deepEqual(
      [...text.matchAll(/seq: (.*)\n.*\n.*target: (.*)/g)].map(([, seq, target]) => `${seq} ${target}`),
      ['-1 main', '0 main', '2 main', '3 b', '3 B', '3 a/b', '3 a.b', '10 main'],
    )
    assert.deepEqual(
      [...text.matchAll(/spec: (.*)/g)].map(([, spec]) => spec),
      ['B', 'a.b', 'a/b', 'b'],
    )
  })

  test('writes fields in the declared order, omits absent ones, and reads many rows in pages', async (t) => {
    const svc = await testHost(t, engine)
    await write(svc, async (tx) => {
      for (let seq = 0; seq < 2001; seq++) await routes.append(tx, { seq, match: 'room=1', target: 'team#observe' })
      await routes.update(tx, { seq: 7 }, { observe_window_chars: 0 })
    })
    const rows = sectionOf(await exportOf(svc), 'routes')
      .split(/^ {2}- /m)
      .slice(1)
    assert.equal(rows.length, 2001)
    assert.equal(rows[7], 'seq: 7\n    match: room=1\n    target: team#observe\n    observe_window_chars: 0\n')
    assert.equal(rows[2000], 'seq: 2000\n    match: room=1\n    target: team#observe\n')
  })

  test('lists a secret without its value', async (t) => {
    const svc = await testHost(t, engine)
    const value = Buffer.from('sealed bytes')
    await write(svc, (tx) =>
      run(tx, 'insert into secrets (scope_kind, owner, key, value, created_at) values ($1, $2, $3, $4, $5)', [
        'folder',
        'main',
        'API_KEY',
        value,
        THEN,
      ]).then(() => {}),
    )
    const text = await exportOf(svc)
    assert.equal(
      sectionOf(text, 'secrets'),
      `secrets:\n  - scope_kind: folder\n    owner: main\n    key: API_KEY\n    created_at: "${THEN}"\n`,
    )
    assert.ok(!text.includes('sealed') && !text.includes(value.toString('base64')))
  })

  test('reads one snapshot while others write', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    const before = await exportOf(svc)
    const [reached, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const exporting = svc.host.engine.read((tx) => {
      const pausedTx: Tx = {
        onCommit: (then) => tx.onCommit(then),
        executeQuery: async (query) => {
          if (query.sql.includes('from groups')) {
            reached.resolve()
            await written.promise
          }
          return tx.executeQuery(query)
        },
      }
      return writeManifest(pausedTx, SHAPES)
    })
    await reached.promise
    await svc.groups('team')
    written.resolve()
    assert.equal(await exporting, before)
    assert.notEqual(await exportOf(svc), before)
  })

  test('changes nothing and leaves no audit row', async (t) => {
    const svc = await testHost(t, engine)
    assert.equal(await exportOf(svc), await exportOf(svc))
    assert.deepEqual(await audited(svc), [])
  })

  test('is for the host only', async (t) => {
    const svc = await testHost(t, engine)
    await svc.operator('github:1')
    await assert.rejects(svc.as(person('github:1')).call(manifestVerb.export, {}), isRefusal('forbidden'))
  })
})

test('other work runs between two pages of an export', async (t) => {
  const svc = await testHost(t)
  await write(svc, async (tx) => {
    for (let seq = 0; seq < 5000; seq++) await routes.append(tx, { seq, match: '', target: 'main' })
  })
  let turns = 0
  let next = setImmediate(function turn() {
    turns++
    next = setImmediate(turn)
  })
  await exportOf(svc)
  clearImmediate(next)
  assert.ok(turns >= 5, `only ${turns} turns`)
})

onEveryEngine('apply', (engine) => {
  test('adds, changes and removes rows, and reports them', async (t) => {
    const svc = await testHost(t, engine)
    await applied(svc, atVersion(1, `groups:\n${MAIN}${TEAM}${group('old')}`))
    const other = '  - {folder: team, name: Other, product: assistant, open: true}\n'
    const result = await applied(svc, atVersion(2, `groups:\n${MAIN}${other}${group('new')}`))
    assert.deepEqual([result.from, result.to, result.warnings, result.effects], [2, 3, [], []])
    assert.deepEqual(keysOf(result), { groups: { added: ['new'], changed: ['team'], removed: ['old'] } })
    const rows = await svc.host.engine.read((tx) => groups.list(tx))
    assert.deepEqual(
      rows.map(({ folder, name }) => [folder, name]),
      [
        ['main', 'main'],
        ['new', 'new'],
        ['team', 'Other'],
      ],
    )
  })

  test('keeps resources that the manifest does not name, and clears those that it lists without rows', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'team')
    const before = await exportOf(svc)
    await applied(svc, atVersion(1, 'scheduled_tasks: []\nacl_membership:\n'))
    const after = await exportOf(svc)
    for (const name of ['scheduled_tasks', 'acl_membership']) assert.equal(sectionOf(after, name), `${name}: []\n`)
    for (const name of ['acl', 'groups', 'network_rules', 'routes'])
      assert.equal(sectionOf(after, name), sectionOf(before, name))
  })

  test('refuses groups without main', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'team')
    const before = await exportOf(svc)
    for (const body of ['groups:\n', 'groups: []\n', `groups:\n${TEAM}`])
      await assert.rejects(
        applyTo(svc, atVersion(1, body), { force: true }),
        isRefusal('invalid', 'line 2: groups: main is missing'),
      )
    // An error in the row of main is the only one reported.
    const odd = MAIN.replace('name: main', 'name: 7')
    await assert.rejects(
      applyTo(svc, atVersion(1, `groups:\n${odd}`)),
      isRefusal('invalid', /^line 3: groups: name must be text$/),
    )
    assert.equal(await exportOf(svc), before)
  })

  test('increments the version even when nothing else changes', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    const text = await exportOf(svc)
    const result = await applied(svc, text)
    assert.deepEqual(keysOf(result), {})
    assert.equal(await exportOf(svc), text.replace('config_version: 1', 'config_version: 2'))
  })

  test('keeps the links and web routes of a group that stays', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'team')
    const token = {
      token_hash: hashToken('x'),
      jid: 'web:team',
      owner_folder: 'team',
      target_folder: 'main',
      created_at: THEN,
    }
    await write(svc, async (tx) => {
      await routeTokens.insert(tx, token)
      await webRoutes.insert(tx, { path_prefix: '/pub/team', access: 'public', folder: 'team', created_at: THEN })
    })
    const before = await everythingElse(svc.host)
    await applied(svc, atVersion(1, `groups:\n${MAIN}${TEAM}`))
    assert.equal(await everythingElse(svc.host), before)
    await svc.host.engine.read(async (tx) => {
      assert.equal(await webRoutes.count(tx), 1)
      assert.deepEqual(
        (await routeTokens.list(tx)).map(({ jid }) => jid),
        ['web:team'],
      )
    })
    // Removing the group removes them.
    assert.deepEqual(keysOf(await applied(svc, atVersion(2, `groups:\n${MAIN}`))), {
      groups: { added: [], changed: [], removed: ['team'] },
    })
    await svc.host.engine.read(async (tx) => {
      assert.deepEqual([await webRoutes.count(tx), await routeTokens.count(tx)], [0, 0])
    })
  })

  test('keeps run logs and next run of a task that stays, and computes a new next run for a new cron', async (t) => {
    const svc = await testHost(t, engine)
    await write(svc, async (tx) => {
      await groups.insert(tx, { folder: 'main', name: 'main', product: 'p', open: true, added_at: THEN })
      await scheduledTasks.insert(tx, { ...TASK, id: 'a', cron: '60000', next_run: THEN, status: 'firing' })
      await scheduledTasks.insert(tx, { ...TASK, id: 'c', cron: '60000', next_run: THEN, status: 'paused' })
      await taskRunLogs.insert(tx, { id: '1', task_id: 'a', run_at: THEN, duration_ms: 1, status: 'ok' })
    })
    const old = (await exportOf(svc)).replaceAll(/status: (firing|paused|completed)/g, 'status: active')
    assert.ok(!sectionOf(old, 'scheduled_tasks').includes('next_run'))
    await applied(svc, old)
    const tasks = await svc.host.engine.read(async (tx) => {
      assert.equal(await taskRunLogs.count(tx), 1)
      return scheduledTasks.list(tx)
    })
    assert.deepEqual(
      tasks.map(({ status, next_run }) => [status, next_run]),
      [
        ['firing', THEN],
        ['active', '2026-01-01T00:01:00.000Z'],
      ],
    )
    const slower = old.replace('cron: "60000"', 'cron: " 0  2 * * *"').replace('version: 1', 'version: 2')
    assert.deepEqual(keysOf(await applied(svc, slower)).scheduled_tasks?.changed, ['a'])
    const [changed] = await svc.host.engine.read((tx) => scheduledTasks.list(tx))
    assert.deepEqual([changed?.cron, changed?.next_run], ['0 2 * * *', '2026-01-01T02:00:00.000Z'])
  })

  test('keeps the time of a single run; does not export or change one that has fired', async (t) => {
    const [svc, elsewhere] = [await testHost(t, engine), await testHost(t, engine)]
    const [soon, later] = ['2026-01-02T00:00:00.000Z', '2026-01-03T00:00:00.000Z']
    for (const { host } of [svc, elsewhere])
      await host.engine.transaction((tx) =>
        groups.insert(tx, { folder: 'main', name: 'main', product: 'p', open: true, added_at: THEN }),
      )
    await write(svc, async (tx) => {
      await scheduledTasks.insert(tx, { ...TASK, id: 'a', next_run: soon, status: 'active' })
      await scheduledTasks.insert(tx, { ...TASK, id: 'b', next_run: soon, status: 'paused' })
      await scheduledTasks.insert(tx, { ...TASK, id: 'c', next_run: THEN, status: 'firing' })
      await scheduledTasks.insert(tx, { ...TASK, id: 'd', status: 'completed' })
    })
    const tasksOf = async ({ host }: TestHost): Promise<string[]> =>
      (await host.engine.read((tx) => scheduledTasks.list(tx))).map(
        ({ id, status, next_run }) => `${id} ${status} ${next_run}`,
      )
    const [text, before] = [await exportOf(svc), await tasksOf(svc)]
    assert.deepEqual(keysOf(await applied(svc, text)), {})
    assert.deepEqual(await tasksOf(svc), before)
    await applied(elsewhere, text)
    assert.deepEqual(await tasksOf(elsewhere), [`a active ${soon}`, `b paused ${soon}`])

    // An old export neither revives nor removes a task that has fired; a new time is stored in UTC.
    await svc.host.engine.transaction((tx) => scheduledTasks.update(tx, { id: 'a' }, { status: 'completed' }))
    const moved = text.replaceAll(soon, '2026-01-03T01:00:00.000+01:00')
    assert.deepEqual(keysOf(await applied(svc, moved, { force: true })).scheduled_tasks, {
      added: [],
      changed: ['b'],
      removed: [],
    })
    assert.deepEqual((await tasksOf(svc)).slice(0, 2), [`a completed ${soon}`, `b paused ${later}`])
    const both = text.replace(/^( +)next_run:/m, '$1cron: "0 2 * * *"\n$1next_run:')
    await assert.rejects(
      applyTo(svc, both, { force: true }),
      isRefusal('invalid', /^line \d+: scheduled_tasks: next_run is only for a task without cron/),
    )
  })

  test('runs a new task without a time now, and keeps the time of an existing one', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    const task = (id: string): string =>
      `  - {id: ${id}, owner: main, chat_jid: main, prompt: p, status: active, context_mode: group}\n`
    const timeOf = async (id: string) => (await svc.host.engine.read((tx) => scheduledTasks.find(tx, { id })))?.next_run
    await applied(svc, atVersion(1, `scheduled_tasks:\n${task('a')}`))
    svc.clock.advance(60_000)
    await applied(svc, atVersion(2, `scheduled_tasks:\n${task('a')}${task('b')}`))
    assert.deepEqual([await timeOf('a'), await timeOf('b')], ['2026-01-01T00:00:00.000Z', '2026-01-01T00:01:00.000Z'])
  })

  test('keeps the manifest order of routes with equal seq; only moved routes get a new id', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    const list = (...targets: string[]) =>
      `routes:\n${targets.map((target) => `  - {seq: 0, match: "", target: ${target}}\n`).join('')}`
    const idsOf = async (): Promise<string[]> => {
      const rows = await svc.host.engine.read((tx) => routes.list(tx))
      return rows.map(({ id, target }) => `${id} ${target}`)
    }
    await applied(svc, atVersion(1, list('z', 'm', 'a')))
    assert.deepEqual(await idsOf(), ['1 z', '2 m', '3 a'])
    assert.deepEqual(keysOf(await applied(svc, atVersion(2, list('z', 'm', 'a')))), {})
    const result = await applied(svc, atVersion(3, list('z', 'new', 'm', 'a', 'last')))
    assert.deepEqual(keysOf(result).routes, {
      added: ['0 "" new', '0 "" last'],
      changed: ['0 "" m', '0 "" a'],
      removed: [],
    })
    assert.deepEqual(await idsOf(), ['1 z', '4 new', '5 m', '6 a', '7 last'])
    assert.deepEqual(keysOf(await applied(svc, atVersion(4, list('a', 'z')))).routes, {
      added: [],
      changed: ['0 "" z'],
      removed: ['0 "" new', '0 "" m', '0 "" last'],
    })
    assert.deepEqual(await idsOf(), ['6 a', '8 z'])
  })

  test('reports rows that end and stay with a removed group, and rows that a new group inherits', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'team')
    await svc.grant('folder:team', 'mcp:send', '**')
    const token = { token_hash: hashToken('x'), jid: 'web:team', owner_folder: 'team', created_at: THEN }
    await write(svc, (tx) => routeTokens.insert(tx, token))
    const effects = async (version: number, body: string, options = {}) => {
      const result = await applyTo(svc, atVersion(version, body), options)
      return result.kind === 'mismatch' ? result : result.effects
    }
    const without = `groups:\n${MAIN}`
    const tasks = '5 tasks (team-mem-0, team-mem-1, team-mem-2, team-mem-3, team-mem-4)'
    const grants = '1 grant (folder:team mcp:send **), 1 role (role:member)'
    const ends = '1 link (web:team)'
    assert.deepEqual(await effects(1, without, { dry_run: true }), [
      { folder: 'team', ends, stays: `${tasks}, ${grants}` },
    ])
    // Rows that the manifest itself removes are not reported.
    assert.deepEqual(await effects(1, `${without}scheduled_tasks: []\n`, { dry_run: true }), [
      { folder: 'team', ends, stays: grants },
    ])
    await effects(1, without)
    const back = `groups:\n${MAIN}${TEAM}`
    assert.deepEqual(await effects(2, back, { dry_run: true }), [{ folder: 'team', inherits: `${tasks}, ${grants}` }])
    assert.deepEqual(await effects(2, `${back}scheduled_tasks:\nacl:\nacl_membership:\n`), [])
  })

  test('accepts acl rows without params and predicate', async (t) => {
    const svc = await testHost(t, engine)
    const row = '  - {principal: "github:1", action: interact, scope: team, effect: allow}\n'
    await applied(svc, atVersion(1, `acl:\n${row}`))
    const [stored] = await svc.host.engine.read((tx) => acl.list(tx))
    assert.deepEqual([stored?.params, stored?.predicate], ['', ''])
    assert.deepEqual(keysOf(await applied(svc, atVersion(2, `acl:\n${row}`))), {})
    await assert.rejects(
      applyTo(svc, atVersion(3, `acl:\n${row}${row.replace('}', ', params: "", predicate: ""}')}`)),
      isRefusal('invalid', /^line 4: acl: duplicate row/),
    )
  })

  test('exports and applies web hosts, and refuses invalid ones', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'team')
    await write(svc, (tx) => webHosts.insert(tx, { hostname: 'a.example', folder: 'team' }))
    const section = 'web_hosts:\n  - hostname: a.example\n    folder: team\n'
    assert.equal(sectionOf(await exportOf(svc), 'web_hosts'), section)
    await applied(svc, atVersion(1, `${section}  - hostname: b.example:8443\n    folder: main\n`))
    assert.deepEqual(keysOf(await applied(svc, atVersion(2, section))).web_hosts?.removed, ['b.example:8443'])
    await assert.rejects(
      applyTo(svc, atVersion(3, section.replace('a.ex', 'A.ex'))),
      isRefusal('invalid', 'line 3: web_hosts: hostname'),
    )
  })

  test('keeps the id of a route that stays', async (t) => {
    const svc = await testHost(t, engine)
    await write(svc, async (tx) => {
      for (const seq of [3, 2, 1]) await routes.append(tx, { seq, match: '', target: 'main', observe_window_chars: 5 })
    })
    const list = (...seqs: number[]) => seqs.map((seq) => `  - {seq: ${seq}, match: "", target: main}\n`).join('')
    const result = await applied(svc, atVersion(1, `routes:\n${list(4, 2, 1)}`))
    assert.deepEqual(keysOf(result).routes, {
      added: ['4 "" main'],
      changed: ['2 "" main', '1 "" main'],
      removed: ['3 "" main'],
    })
    const rows = await svc.host.engine.read((tx) => routes.list(tx))
    assert.deepEqual(
      rows.map(({ id, seq, observe_window_chars }) => [id, seq, observe_window_chars]),
      [
        [2, 2, undefined],
        [3, 1, undefined],
        [4, 4, undefined],
      ],
    )
  })

  test('keeps or sets columns that the server sets where the manifest omits them, and takes given values', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    svc.clock.advance(60_000)
    await applied(
      svc,
      atVersion(
        1,
        `groups:\n${MAIN}${TEAM}  - {folder: old, name: old, product: p, open: true, added_at: "${THEN}"}\n`,
      ),
    )
    const rows = await svc.host.engine.read((tx) => groups.list(tx))
    assert.deepEqual(
      rows.map(({ folder, added_at }) => [folder, added_at]),
      [
        ['main', '2026-01-01T00:00:00.000Z'],
        ['old', THEN],
        ['team', '2026-01-01T00:01:00.000Z'],
      ],
    )
  })

  test('reports another version as a mismatch without changes or audit, unless forced', async (t) => {
    const svc = await testHost(t, engine)
    const before = await exportOf(svc)
    assert.deepEqual(await applyTo(svc, atVersion(7, 'acl: []\n')), { kind: 'mismatch', manifest: 7, store: 1 })
    assert.deepEqual(await applyTo(svc, atVersion(7, 'acl: []\n'), { dry_run: true }), {
      kind: 'mismatch',
      manifest: 7,
      store: 1,
    })
    assert.equal(await exportOf(svc), before)
    assert.deepEqual(await audited(svc), [])
    const { from, to } = await applied(svc, atVersion(7, `groups:\n${MAIN}`), { force: true })
    assert.deepEqual([from, to], [1, 2])
  })

  test('force skips no other check', async (t) => {
    const svc = await testHost(t, engine)
    for (const bad of ['acl: []\n', 'config_version: x\n', atVersion(1, 'acl: 7\n'), atVersion(1, 'x: []\n')])
      await assert.rejects(applyTo(svc, bad, { force: true }), isRefusal('invalid', 'line '))
  })

  test('a dry run reports the plan of the following apply and writes nothing', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    const before = [await exportOf(svc), await everythingElse(svc.host)]
    const manifest = atVersion(1, `groups:\n${MAIN}${TEAM}acl: []\n`)
    const planned = await applyTo(svc, manifest, { dry_run: true })
    assert.deepEqual([await exportOf(svc), await everythingElse(svc.host)], before)
    assert.deepEqual(await audited(svc), [])
    assert.ok(planned.kind === 'planned')
    const { rows: _, fingerprint: __, ...outcome } = planned
    assert.deepEqual({ ...(await applied(svc, manifest)), kind: 'planned' }, outcome)
  })

  test('a dry run shows the values of each row before and after, and no column that a manifest lacks', async (t) => {
    const svc = await testHost(t, engine)
    await applied(
      svc,
      atVersion(1, `groups:\n${MAIN}${TEAM}${group('old')}routes:\n${routeTo('main')}${routeTo('team')}`),
    )
    const other = '  - {folder: team, name: Other, product: assistant, open: true}\n'
    const body = `groups:\n${MAIN}${other}${group('new')}routes:\n${routeTo('team')}${routeTo('main')}`
    const planned = await applyTo(svc, atVersion(2, body), { dry_run: true })
    assert.ok(planned.kind === 'planned')
    assert.deepEqual(planned.rows, [
      {
        resource: 'groups',
        key: 'team',
        change: 'changed',
        fields: [{ name: 'name', before: 'Team', after: 'Other' }],
      },
      {
        resource: 'groups',
        key: 'new',
        change: 'added',
        fields: [
          { name: 'folder', after: 'new' },
          { name: 'name', after: 'new' },
          { name: 'product', after: 'p' },
          { name: 'open', after: 'true' },
        ],
      },
      {
        resource: 'groups',
        key: 'old',
        change: 'removed',
        fields: [
          { name: 'folder', before: 'old' },
          { name: 'name', before: 'old' },
          { name: 'product', before: 'p' },
          { name: 'open', before: 'true' },
        ],
      },
      { resource: 'routes', key: '0 "" main', change: 'moved', fields: [] },
    ])
  })

  test('applies a plan that was shown, and refuses it after a change of what it would do', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    const manifest = atVersion(1, `groups:\n${MAIN}${TEAM}`)
    const plan = async (text: string) => {
      const planned = await applyTo(svc, text, { dry_run: true })
      assert.ok(planned.kind === 'planned')
      return planned.fingerprint
    }
    const first = await plan(manifest)
    svc.clock.advance(3_600_000)
    assert.equal(await plan(manifest), first)
    await svc.groups('later')
    const before = await exportOf(svc)
    for (const force of [false, true])
      await assert.rejects(
        applyTo(svc, manifest, { planned: first, force }),
        isRefusal('conflict', 'the configuration has changed since this plan was made'),
      )
    assert.equal(await exportOf(svc), before)
    assert.deepEqual(await audited(svc), [])
    const second = await plan(manifest)
    await assert.rejects(applyTo(svc, `${manifest}routes: []\n`, { planned: second }), isRefusal('conflict'))
    const { kind } = await applied(svc, manifest, { planned: second })
    assert.equal(kind, 'applied')
    assert.equal((await audited(svc)).length, 1)
  })

  test('refuses rows that refer to a missing group, with their lines (Y13)', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'team')
    const before = await exportOf(svc)
    const webRoute = (folder: string) => `  - {path_prefix: /${folder}, access: public, folder: ${folder}}\n`
    const bad = {
      'unknown groups': atVersion(1, `web_routes:\n${webRoute('main')}${webRoute('x')}${webRoute('y')}`),
      'a group that the same manifest removes': atVersion(1, `groups:\n${MAIN}web_routes:\n${webRoute('team')}`),
    }
    await assert.rejects(
      applyTo(svc, bad['unknown groups']),
      isRefusal('invalid', /2 errors\nline 4: web_routes: folder is x, but groups will have no such row\nline 5: /),
    )
    await assert.rejects(
      applyTo(svc, bad['a group that the same manifest removes']),
      isRefusal('invalid', 'line 5: web_routes: folder is team'),
    )
    assert.equal(await exportOf(svc), before)
    // A row may move from a removed group to a new one, in any order of the manifest.
    await applied(svc, atVersion(1, `web_routes:\n${webRoute('team')}`))
    const moved = `web_routes:\n  - {path_prefix: /team, access: public, folder: new}\n`
    await applied(svc, atVersion(2, `${moved}groups:\n${MAIN}${group('new')}`))
    const rows = await svc.host.engine.read((tx) => webRoutes.list(tx))
    assert.deepEqual(
      rows.map(({ path_prefix, folder }) => [path_prefix, folder]),
      [['/team', 'new']],
    )
  })

  test('refuses errors that only apply can find, with their lines', async (t) => {
    const svc = await testHost(t, engine)
    await write(svc, (tx) =>
      groups.insert(tx, { folder: 'main', name: 'main', product: 'p', open: true, added_at: THEN }),
    )
    const task = (id: string, cron: string) =>
      `  - {id: ${id}, owner: main, chat_jid: main, prompt: p, cron: "${cron}", status: active, context_mode: group}\n`
    const manifest = atVersion(
      1,
      `scheduled_tasks:\n${task('a', '* * *')}${task('b', '0 2 * * *')}${task('c', '2026-05-01T00:00:00Z')}`,
    )
    await assert.rejects(
      applyTo(svc, manifest),
      isRefusal('invalid', /2 errors\nline 3: scheduled_tasks: invalid cron .*\nline 5: scheduled_tasks: cron must be/),
    )
    assert.equal(sectionOf(await exportOf(svc), 'scheduled_tasks'), 'scheduled_tasks: []\n')
  })

  test('applies settings, encrypts secrets that it names, and keeps those that an export has sealed', async (t) => {
    const svc = await testHost(t, engine)
    const read = () => svc.host.engine.read((tx) => svc.host.storedSettings.read(tx))
    const setting = (key: string, value: string): string => `  - {key: ${key}, value: '${value}'}\n`
    const forced = { force: true }
    const sent = (body: string) => applied(svc, atVersion(1, body), forced)
    await sent(`settings:\n${setting('KEEP_TURNS', '1h')}${setting('GITHUB_SECRET', 's3cret')}`)
    assert.deepEqual([(await read()).get('KEEP_TURNS'), (await read()).get('GITHUB_SECRET')], ['1h', 's3cret'])
    const exported = sectionOf(await exportOf(svc), 'settings')
    assert.match(exported, /key: GITHUB_SECRET\n {4}value: sealed\n/)
    assert.ok(!exported.includes('s3cret'))
    await sent(exported.replace(/value: .*1h.*/, 'value: 2h'))
    assert.deepEqual([(await read()).get('KEEP_TURNS'), (await read()).get('GITHUB_SECRET')], ['2h', 's3cret'])
    const wrong = atVersion(1, `settings:\n${setting('WEB_HOST', 'a.example')}${setting('KEEP_TURNS', '1m')}`)
    await assert.rejects(
      applyTo(svc, wrong, forced),
      isRefusal('invalid', /WEB_HOST can only be set in \.env.*KEEP_TURNS must be/s),
    )
    await sent('settings: []\n')
    assert.equal((await read()).get('KEEP_TURNS'), undefined)
  })

  test('ignores the secrets of a manifest', async (t) => {
    const svc = await testHost(t, engine)
    const result = await applied(svc, atVersion(1, 'secrets:\n  - {scope_kind: folder, owner: main, key: A}\n'))
    assert.deepEqual(result.plan, [])
    assert.equal(sectionOf(await exportOf(svc), 'secrets'), 'secrets: []\n')
  })

  test('warns only when the last operator is removed', async (t) => {
    const svc = await testHost(t, engine)
    const power =
      '  - {principal: "role:operator", action: "*", scope: "**", effect: allow, params: "", predicate: ""}\n'
    const narrower = power.replace('params: ""', 'params: a=b')
    const member = (subject: string, role = 'role:operator') => `  - {subject: "${subject}", role: "${role}"}\n`
    const memberships = (...rows: string[]) =>
      rows.length ? `acl_membership:\n${rows.join('')}` : 'acl_membership: []\n'
    const steps: [string, RegExp | undefined][] = [
      [memberships(), undefined],
      [memberships(member('role:a'), member('github:1', 'role:a')), undefined],
      [`acl:\n${power}`, undefined],
      [memberships(member('role:a'), member('github:2', 'role:a')), undefined],
      [memberships(member('role:a')), /role:operator no longer has members/],
      [memberships(member('role:b')), undefined],
      [`acl:\n${narrower}`, /role:operator no longer has \* on \*\*/],
      ['acl: []\n', undefined],
    ]
    for (const [index, [body, warning]] of steps.entries()) {
      const { warnings } = await applied(svc, atVersion(index + 1, body))
      assert.deepEqual(warnings.length, warning ? 1 : 0, `${body}: ${warnings}`)
      if (warning) assert.match(warnings[0] ?? '', warning)
    }
  })

  test('writes one audit row with hash and counts, without the text', async (t) => {
    const svc = await testHost(t, engine)
    const manifest = atVersion(1, `groups:\n${MAIN}${TEAM}acl: []\n`)
    await applied(svc, manifest, { source: 'deploy/prod.yaml' })
    const [row, ...more] = await audited(svc)
    assert.deepEqual(more, [])
    assert.deepEqual(
      [row?.action, row?.key, row?.outcome, row?.surface],
      ['config.apply', 'deploy/prod.yaml', 'ok', 'cli'],
    )
    assert.deepEqual(JSON.parse(row?.params_summary ?? ''), {
      sha256: createHash('sha256').update(manifest).digest('hex').slice(0, 16),
      version: '1 -> 2',
      force: false,
      groups: '+2 ~0 -0',
      acl: '+0 ~0 -13',
      source: 'deploy/prod.yaml',
    })
  })

  test('is for the host only, and audits a refusal without the text', async (t) => {
    const svc = await testHost(t, engine)
    await svc.operator('github:1')
    const manifest = atVersion(1, `groups:\n${MAIN}${TEAM}`)
    await assert.rejects(svc.as(person('github:1')).call(manifestVerb.apply, { manifest }), isRefusal('forbidden'))
    const [row] = await audited(svc)
    assert.equal(row?.outcome, 'denied')
    assert.match(row?.params_summary ?? '', /"manifest":"<redacted:/)
    assert.ok(!JSON.stringify(row).includes('team'))
  })

  test('rolls back when a write fails', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    await write(svc, async (tx) => {
      await run(tx, 'create unique index one_gate on onboarding_gates (daily_limit)')
    })
    const before = [await exportOf(svc), await everythingElse(svc.host)]
    const gates = ['a', 'b'].map((spec) => `  - {spec: ${spec}, daily_limit: 1, enabled: true}\n`).join('')
    await assert.rejects(
      applyTo(svc, atVersion(1, `groups:\n${MAIN}${TEAM}acl: []\nonboarding_gates:\n${gates}`)),
      isRefusal('conflict'),
    )
    assert.deepEqual([await exportOf(svc), await everythingElse(svc.host)], before)
    assert.deepEqual(await audited(svc), [])
  })

  test('lets exactly one of several concurrent applies win', async (t) => {
    const svc = await testHost(t, engine)
    const manifest = (name: string) => atVersion(1, `groups:\n${MAIN}${group(name)}`)
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const results = await Promise.all(names.map((name) => applyTo(svc, manifest(name))))
    const winners = names.filter((_, index) => results[index]?.kind === 'applied')
    assert.equal(winners.length, 1)
    assert.equal(results.filter((result) => result.kind === 'mismatch').length, names.length - 1)
    const rows = await svc.host.engine.read((tx) => groups.list(tx))
    assert.deepEqual(
      rows.map(({ folder }) => folder),
      [...winners, 'main'],
    )
    assert.equal((await audited(svc)).length, 1)
    assert.match(await exportOf(svc), /^config_version: 2\n/)
  })
})
