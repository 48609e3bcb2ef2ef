import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { chats } from '../chats/chats.ts'
import { addChatRoutes, planChatRoutes, type RoutePlan } from './chat-routes.ts'
import { compileRoutes } from './route-table.ts'
import { routes } from './routes.ts'

async function add({ host }: TestHost, jid: string, folder: string, isFirst = false): Promise<RoutePlan> {
  return host.engine.transaction(async (tx) => {
    const plan = await planChatRoutes(tx, jid, folder, { isFirst })
    await addChatRoutes(tx, jid, plan)
    return plan
  })
}

const addRoute = ({ host }: TestHost, seq: number, match: string, target: string) =>
  host.engine.transaction((tx) => routes.append(tx, { seq, match, target }))
const addChat = ({ host }: TestHost, jid: string) => host.engine.transaction((tx) => chats.insertIfMissing(tx, { jid }))

/** The folder that an ordinary message of the chat goes to. */
async function folderOf({ host }: TestHost, jid: string, sender = 'ada'): Promise<string | undefined> {
  const table = compileRoutes(await host.engine.read((tx) => routes.list(tx)))
  return table.match({ jid, sender, verb: '' })?.target.name
}

onEveryEngine('the routes of a chat', (engine) => {
  test('name the platform only if another platform has a room of that name', async (t) => {
    const cases: [string, (at: TestHost) => Promise<unknown>, string | undefined][] = [
      ['x:a', async () => {}, undefined],
      ['x:a', (at) => addChat(at, 'x:a'), undefined],
      ['x:a', (at) => addChat(at, 'y:b'), undefined],
      ['x:a', (at) => addChat(at, 'y:A'), undefined],
      ['x:a_b', (at) => addChat(at, 'y:aXb'), undefined],
      ['x:a%', (at) => addChat(at, 'y:abc'), undefined],
      ['x:a', (at) => addChat(at, 'y:b:a'), undefined],
      ['x:a', (at) => addChat(at, 'y:a'), 'y:a'],
      ['x:a_b', (at) => addChat(at, 'y:a_b'), 'y:a_b'],
      ['x:b:a', (at) => addChat(at, 'y:b:a'), 'y:b:a'],
      ['x:a', (at) => addRoute(at, 0, 'room=a', 'other'), undefined],
      ['x:a', (at) => addRoute(at, 0, 'platform=y room=a', 'other'), 'y:a'],
      ['x:a', (at) => addRoute(at, 0, 'verb=mention room=a platform=y', 'other'), 'y:a'],
      ['x:a', (at) => addRoute(at, 0, 'chat_jid=y:a', 'other'), 'y:a'],
      ['x:a', (at) => addRoute(at, 0, 'platform=x room=a', 'other'), undefined],
      ['x:a', (at) => addRoute(at, 0, 'platform=y room=b', 'other'), undefined],
    ]
    const at = await testHost(t, engine)
    for (const [jid, prepare, sharedWith] of cases) {
      await at.host.engine.transaction(async (tx) => {
        for (const row of await routes.list(tx)) await routes.remove(tx, { id: row.id })
        for (const row of await chats.list(tx)) await chats.remove(tx, { jid: row.jid })
      })
      await prepare(at)
      const plan = await add(at, jid, 'team')
      const room = jid.slice(2)
      assert.equal(plan.sharedWith, sharedWith, `${jid} ${prepare}`)
      const [match, seq] = sharedWith === undefined ? [`room=${room}`, 0] : [`platform=x room=${room}`, -1]
      assert.deepEqual(plan.added, [{ seq, match, target: 'team' }])
      assert.deepEqual((await planOf(at, jid, 'team')).added, [], 'repeating it adds nothing')
    }
  })

  test('for rooms of the same name lead each platform to its own folder', async (t) => {
    const at = await testHost(t, engine)
    for (const [jid, folder] of [
      ['x:a', 'one'],
      ['y:a', 'two'],
      ['z:a', 'three'],
    ] as const)
      await add(at, jid, folder)
    assert.deepEqual(
      [await folderOf(at, 'x:a'), await folderOf(at, 'y:a'), await folderOf(at, 'z:a')],
      ['one', 'two', 'three'],
    )
  })

  test('stay behind a general route and report it, or come first on request', async (t) => {
    const at = await testHost(t, engine)
    await addRoute(at, -5, '', 'main')
    await addRoute(at, -7, 'sender=mallory', 'builtin:drop')
    const plan = await add(at, 'x:a', 'team')
    assert.deepEqual(
      plan.inFront.map(({ target }) => target),
      ['main'],
      'a route for one sender does not take the chat',
    )
    assert.equal(await folderOf(at, 'x:a'), 'main')
    const moved = await add(at, 'x:a', 'team', true)
    assert.deepEqual([moved.added, moved.moved.map(({ seq }) => seq), moved.inFront], [[], [-6], []])
    assert.deepEqual(
      moved.overtaken.map(({ target }) => target),
      ['main'],
    )
    assert.equal(await folderOf(at, 'x:a'), 'team')
    assert.equal(await folderOf(at, 'x:a', 'mallory'), 'drop')
  })

  test("can come first without taking another platform's chat", async (t) => {
    const at = await testHost(t, engine)
    await add(at, 'x:a', 'one')
    await add(at, 'y:a', 'two')
    await addRoute(at, -3, 'chat_jid=x:a', 'other')
    assert.equal(await folderOf(at, 'x:a'), 'other')
    const plan = await add(at, 'x:a', 'one', true)
    assert.deepEqual([plan.added, plan.moved], [[{ seq: -4, match: 'platform=x room=a', target: 'one' }], []])
    assert.deepEqual([await folderOf(at, 'x:a'), await folderOf(at, 'y:a')], ['one', 'two'])
    await addRoute(at, -9, 'chat_jid=x:a', 'third')
    assert.deepEqual((await add(at, 'x:a', 'one', true)).moved, [{ id: 4, seq: -10 }])
    assert.deepEqual([await folderOf(at, 'x:a'), await folderOf(at, 'y:a')], ['one', 'two'])
  })

  test('are rejected when no lower seq is left', async (t) => {
    const at = await testHost(t, engine)
    await addRoute(at, -999_999, 'room=a', 'other')
    await addRoute(at, -1_000_000, 'room=b', 'other')
    assert.deepEqual((await add(at, 'x:a', 'team', true)).added[0]?.seq, -1_000_000)
    await assert.rejects(add(at, 'x:b', 'team', true), isRefusal('conflict', 'would need the seq -1000001'))
  })

  test('do not record the chat of a link, whose token names its folder', async (t) => {
    const at = await testHost(t, engine)
    await add(at, 'web:team', 'team')
    await add(at, 'x:team', 'other')
    assert.deepEqual(
      (await at.host.engine.read((tx) => chats.list(tx))).map(({ jid }) => jid),
      ['x:team'],
    )
  })
})

function planOf({ host }: TestHost, jid: string, folder: string): Promise<RoutePlan> {
  return host.engine.read((tx) => planChatRoutes(tx, jid, folder))
}
