// Export and apply are inverse for every store, and change no other tables.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parse, stringify } from 'yaml'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { applied, everythingElse, exportOf, keysOf } from '../../../test/support/manifest.ts'
import { needs } from '../../../test/support/needs.ts'
import { fillStore, type RandomStore, randomStore } from '../../../test/support/random-store.ts'
import { compileRoutes } from '../../core/routing/route-table.ts'
import { routes } from '../../core/routing/routes.ts'
import { scheduledTasks } from '../../core/schedule/tasks.ts'

const RUNS: Record<EngineName, number> = { sqlite: 60, postgres: 15 }

/** The store's rows without its version. */
async function bodyOf(svc: TestHost): Promise<string> {
  return (await exportOf(svc)).replace(/^config_version: \d+\n/, '')
}

function sectionsOf(text: string): Map<string, string> {
  return new Map(text.split(/^(?=[a-z_]+:)/m).map((part) => [part.slice(0, part.indexOf(':')), part]))
}

function versionOf(text: string): number {
  return Number(/^config_version: (\d+)\n/.exec(text)?.[1])
}

/** Like an instance from `svc create`. */
const NEW_INSTANCE: RandomStore = {
  groups: [{ folder: 'main', name: 'main', product: 'assistant', open: true, added_at: '2026-01-01T00:00:00.000Z' }],
}

/** Routes that compete for the same few messages, with few values of seq. */
const competingRoutes = fc.uniqueArray(
  fc.record({
    seq: fc.integer({ min: -1, max: 1 }),
    match: fc.constantFrom('', 'room=1', 'room=*', 'platform=slack', 'sender=a', 'room=1 verb=mention'),
    target: fc.constantFrom('a', 'b', 'c', 'builtin:drop'),
  }),
  { maxLength: 10, selector: (route) => JSON.stringify(route) },
)

const isNotIn = <T>(rows: readonly T[]) => {
  const known = new Set(rows.map((row) => JSON.stringify(row)))
  return (row: T): boolean => !known.has(JSON.stringify(row))
}

const MESSAGES = ['slack:1', 'telegram:1', 'slack:2', 'telegram:2'].flatMap((jid) =>
  ['a', 'b'].flatMap((sender) => ['', 'mention'].map((verb) => ({ jid, sender, verb }))),
)

/** Rows that a manifest must never change, including the next run of every task. */
async function restOf(svc: TestHost): Promise<string> {
  const tasks = await svc.host.engine.read((tx) => scheduledTasks.list(tx))
  return `${await everythingElse(svc.host)} ${JSON.stringify(tasks)}`
}

/** The same document with keys and rows in another order (except routes, whose order counts) and in the package's layout. */
function shuffle(text: string, seed: number): string {
  let state = seed
  const next = (): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) | 0
    return (state >>> 8) / 2 ** 24
  }
  const mix = <T>(list: readonly T[]): T[] =>
    list
      .map((item) => [next(), item] as const)
      .sort(([a], [b]) => a - b)
      .map(([, item]) => item)
  const mixed = Object.fromEntries(
    mix(Object.entries<unknown>(parse(text))).map(([name, rows]) => [
      name,
      Array.isArray(rows)
        ? (name === 'routes' ? rows : mix(rows)).map((row) => Object.fromEntries(mix(Object.entries(row))))
        : rows,
    ]),
  )
  const quoted = stringify(mixed, { defaultStringType: 'QUOTE_DOUBLE', lineWidth: 0, aliasDuplicateObjects: false })
  // The package does not escape characters that svc refuses.
  return quoted.replace(
    /[\u007f-\u009f\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

onEveryEngine('for every store', (engine) => {
  const numRuns = RUNS[engine]

  test('applying its own export changes only the version', async (t) => {
    const svc = await testHost(t, engine)
    await fc.assert(
      fc.asyncProperty(randomStore, async (store) => {
        await fillStore(svc.host, store)
        const [text, rest] = [await exportOf(svc), await restOf(svc)]
        const result = await applied(svc, text)
        assert.deepEqual(keysOf(result), {})
        assert.deepEqual([result.from, result.to], [versionOf(text), versionOf(text) + 1])
        assert.equal(await exportOf(svc), text.replace(/\d+/, String(result.to)))
        assert.equal(await restOf(svc), rest)
      }),
      { numRuns },
    )
  })

  test('applying the export of another store makes the resources equal', async (t) => {
    const svc = await testHost(t, engine)
    await fc.assert(
      fc.asyncProperty(randomStore, randomStore, async (one, other) => {
        // Apply ignores secrets and the state of running or completed tasks.
        const plain = (store: RandomStore): RandomStore => ({
          ...store,
          secrets: one.secrets ?? [],
          scheduled_tasks: (store.scheduled_tasks ?? []).map((task) => ({ ...task, status: 'paused' })),
        })
        await fillStore(svc.host, plain(other))
        const wanted = await exportOf(svc)
        await fillStore(svc.host, plain(one))
        const rest = await everythingElse(svc.host)
        await applied(svc, wanted, { force: true })
        assert.equal(await bodyOf(svc), wanted.replace(/^.*\n/, ''))
        assert.equal(await everythingElse(svc.host), rest)
      }),
      { numRuns },
    )
  })

  test('a new instance has the same export after applying it', async (t) => {
    const svc = await testHost(t, engine)
    await fc.assert(
      fc.asyncProperty(randomStore, async (store) => {
        await fillStore(svc.host, { ...store, secrets: [] })
        const text = await exportOf(svc)
        await fillStore(svc.host, NEW_INSTANCE)
        await applied(svc, text, { force: true })
        assert.equal(await bodyOf(svc), text.replace(/^.*\n/, ''))
      }),
      { numRuns },
    )
  })

  test('another instance routes every message to the same folder after applying the export', async (t) => {
    const svc = await testHost(t, engine)
    const stores = fc.tuple(competingRoutes, competingRoutes).chain(([wanted, others]) =>
      // Some of the same rows in another order, so that their ids do not help.
      fc.shuffledSubarray(wanted).map((kept) => ({ wanted, existing: [...kept, ...others.filter(isNotIn(wanted))] })),
    )
    const decisions = async (): Promise<string[]> => {
      const table = compileRoutes(await svc.host.engine.read((tx) => routes.list(tx)))
      return MESSAGES.map((message) => JSON.stringify(table.match(message)?.target ?? 'none'))
    }
    await fc.assert(
      fc.asyncProperty(stores, async ({ wanted, existing }) => {
        await fillStore(svc.host, { ...NEW_INSTANCE, routes: wanted })
        const [text, before] = [await exportOf(svc), await decisions()]
        await fillStore(svc.host, { ...NEW_INSTANCE, routes: existing })
        await applied(svc, text, { force: true })
        assert.deepEqual(await decisions(), before)
        assert.equal(await bodyOf(svc), text.replace(/^.*\n/, ''))
      }),
      { numRuns },
    )
  })

  test('a part of an export changes only that part', async (t) => {
    const svc = await testHost(t, engine)
    // Without groups, because removing them may remove web routes.
    const names = ['acl', 'acl_membership', 'network_rules', 'onboarding_gates', 'proxyd_routes', 'routes']
    await fc.assert(
      fc.asyncProperty(randomStore, randomStore, fc.subarray(names), async (one, other, chosen) => {
        await fillStore(svc.host, other)
        const wanted = sectionsOf(await exportOf(svc))
        await fillStore(svc.host, one)
        const [before, rest] = [sectionsOf(await exportOf(svc)), await restOf(svc)]
        const parts = chosen.map((name) => wanted.get(name)).join('')
        await applied(svc, `config_version: 1\n${parts}`, { force: true })
        const after = sectionsOf(await exportOf(svc))
        for (const name of before.keys()) {
          if (name === 'config_version') continue
          assert.equal(after.get(name), (chosen.includes(name) ? wanted : before).get(name))
        }
        assert.equal(await restOf(svc), rest)
      }),
      { numRuns: Math.ceil(numRuns / 2) },
    )
  })

  test('the order of keys and rows and the layout do not matter (Y18)', async (t) => {
    const svc = await testHost(t, engine)
    await fc.assert(
      fc.asyncProperty(randomStore, fc.integer(), async (store, seed) => {
        await fillStore(svc.host, store)
        const text = await exportOf(svc)
        assert.deepEqual(keysOf(await applied(svc, shuffle(text, seed))), {})
        await fillStore(svc.host, { ...store, ...NEW_INSTANCE, web_routes: [], web_hosts: [], routes: [], acl: [] })
        await applied(svc, shuffle(text, seed + 1), { force: true })
        assert.equal(await bodyOf(svc), text.replace(/^.*\n/, ''))
      }),
      { numRuns: Math.ceil(numRuns / 2) },
    )
  })

  test('the order in which rows were written does not matter, except for routes', async (t) => {
    const svc = await testHost(t, engine)
    await fc.assert(
      fc.asyncProperty(randomStore, async (store) => {
        await fillStore(svc.host, store)
        const text = await bodyOf(svc)
        const backwards = Object.entries(store).map(([name, rows]) => [
          name,
          name === 'routes' ? rows : [...rows].reverse(),
        ])
        await fillStore(svc.host, Object.fromEntries(backwards))
        assert.equal(await bodyOf(svc), text)
      }),
      { numRuns: Math.ceil(numRuns / 2) },
    )
  })
})

test('exports the same bytes for the same rows on both engines', needs('postgres'), async (t) => {
  const [sqlite, postgres] = [await testHost(t, 'sqlite'), await testHost(t, 'postgres')]
  await fc.assert(
    fc.asyncProperty(randomStore, async (store) => {
      await Promise.all([fillStore(sqlite.host, store), fillStore(postgres.host, store)])
      assert.equal(await exportOf(postgres), await exportOf(sqlite))
    }),
    { numRuns: 15 },
  )
})
