// Removing a group removes its links and web routes in the same transaction, also with concurrent writers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { groups } from '../src/core/groups/groups.ts'
import { routeTokens } from '../src/core/links/route-tokens.ts'
import { webRoutes } from '../src/core/links/web-routes.ts'
import { Refusal } from '../src/lib/refusal.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { routeTokensResource } from '../src/resources/route-tokens.ts'
import { webRoutesResource } from '../src/resources/web-routes.ts'
import { onEveryEngineQuickly, type TestHost, testHost } from './support/host.ts'

const FOLDERS = ['team', 'team/a', 'other']
const action = fc.record({
  kind: fc.constantFrom('add', 'remove', 'link', 'route'),
  folder: fc.constantFrom(...FOLDERS),
  name: fc.integer({ min: 0, max: 3 }),
})
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

function perform({ cli }: TestHost, { kind, folder, name }: Action): Promise<unknown> {
  if (kind === 'add') return cli.call(groupsResource.verbs.add, { folder })
  if (kind === 'remove') return cli.call(groupsResource.verbs.remove, { folder })
  if (kind === 'link')
    return cli.call(routeTokensResource.verbs.issue_chat, { target_folder: folder, jid_suffix: `${name}` })
  return cli.call(webRoutesResource.verbs.create, { path_prefix: `/pub/${folder}/${name}/`, access: 'public', folder })
}

/** Lists references to groups that do not exist. */
async function listOrphans({ host }: TestHost): Promise<string[]> {
  return host.engine.read(async (tx) => {
    const known = new Set((await groups.list(tx)).map(({ folder }) => folder))
    const named = [
      ...(await routeTokens.list(tx)).flatMap(({ owner_folder, target_folder }) => [
        owner_folder,
        target_folder ?? owner_folder,
      ]),
      ...(await webRoutes.list(tx)).map(({ folder }) => folder),
    ]
    return named.filter((folder) => !known.has(folder))
  })
}

onEveryEngineQuickly('a removed group', (engine) => {
  test('never leaves a link or a web route', async (t) => {
    const at = await testHost(t, engine)
    const runs = { numRuns: engine === 'sqlite' ? 60 : 15 }
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
        const state = { isDone: false }
        const watcher = async (): Promise<void> => {
          while (!state.isDone) {
            assert.deepEqual(await listOrphans(at), [])
            await new Promise(setImmediate)
          }
        }
        const watching = watcher()
        const outcomes = await Promise.allSettled(actions.map((one) => perform(at, one)))
        state.isDone = true
        await watching
        // Refusals are fine: the row is missing, exists already, or has another owner.
        for (const outcome of outcomes)
          if (outcome.status === 'rejected') assert.ok(outcome.reason instanceof Refusal, String(outcome.reason))
        assert.deepEqual(await listOrphans(at), [])
      }),
      runs,
    )
  })
})
