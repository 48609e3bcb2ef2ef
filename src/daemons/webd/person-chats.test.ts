// Signed-in people at chat links, and the chats that belong to one person.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, isRefusal, onEveryEngine, person, testHost } from '../../../test/support/host.ts'
import { json, openStream } from '../../../test/support/link-host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { type SignedInBrowser, signIn } from '../../../test/support/sign-in.ts'
import { until } from '../../../test/support/until.ts'
import { createTokenProof } from '../../core/links/link-token.ts'
import { personChatJid } from '../../core/links/person-chats.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { inbox } from '../../core/messages/inbox.ts'
import { messages } from '../../core/messages/messages.ts'
import { audit } from '../../registry/audit.ts'
import { groupsResource } from '../../resources/groups.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'

const { verbs } = routeTokensResource
const ADA_JID = personChatJid('team', 'local:ada')

interface Chats extends ServedHost {
  readonly origin: string
  /** POST as JSON; headers are added. */
  say(path: string, headers?: Record<string, string>): Promise<Response>
}

async function openChats(t: TestContext, engine: EngineName = 'sqlite', daemons?: string[]): Promise<Chats> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'other')
  await on.operator('local:root')
  const served = await serveHost(t, { on, ...(daemons ? { daemons } : {}) })
  return {
    ...served,
    origin: new URL(served.url()).origin,
    say: (path, headers = {}) => fetch(served.url() + path, { method: 'POST', ...json({ content: 'hi' }, headers) }),
  }
}

const FRONT = ['proxyd', 'webd', 'authd']

/** Signs in and opens the own chat with `team`; returns its path. */
async function openOwnChat(
  chats: Chats,
  sub = 'local:ada',
): Promise<{ browser: SignedInBrowser; path: string; own: Record<string, string> }> {
  await chats.grant(sub, 'interact', 'team')
  const browser = await signIn(chats, sub)
  const answer = await browser.post('/auth/chat', { folder: 'team' })
  assert.equal(answer.status, 303, await answer.text())
  const path = answer.headers.get('location') ?? ''
  return { browser, path, own: { Cookie: browser.cookie, Origin: chats.origin } }
}

onEveryEngine('the stream of a link', (engine) => {
  test('has tool calls only for people who may see the log of a turn, while they may, and for the operator', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    const { token } = await chats.cli.call(verbs.issue_chat, { target_folder: 'team' })
    const { token_hash } = (await chats.host.engine.read((tx) => routeTokens.list(tx)))[0] ?? assert.fail('no link')
    await chats.grant('local:ada', 'admin', 'team')
    await chats.grant('local:bob', 'interact', 'team')
    await chats.grant('local:eve', 'admin', 'other')
    const read = async (sub?: string, path = `/chat/${token}/`, foreign = {}) => {
      const own = sub === undefined ? {} : { Cookie: (await signIn(chats, sub)).cookie, Origin: chats.origin }
      return openStream(t, `${chats.url()}${path}events?deltas=1`, { ...own, ...foreign })
    }
    const proof = createTokenProof(token_hash, chats.host.keyring)
    const [ada, root, operator] = [
      await read('local:ada'),
      await read('local:root'),
      await read(undefined, `/chat/${proof}/`),
    ]
    const others = [
      await read(),
      await read('local:bob'),
      await read('local:eve'),
      await read('local:ada', undefined, { Origin: 'https://evil.example' }),
    ]
    const plain = await openStream(t, `${chats.url()}/chat/${token}/events`)
    const about = { turn: 't', fence: 1, jid: 'web:team', topic: '', folder: 'team', rounds: ['t'], isOver: false }
    const call = { n: 1, tool: 'find_messages', args: '{"query":"x"}', at: 0, state: 'running' } as const
    let n = 0
    const doing = 'Searching messages'
    const publish = (): void => chats.host.drafts.emit({ ...about, n: ++n, doing, calls: [call], running: [1] }, true)
    const shown = { turn_id: 't', text: doing }
    const detail = [{ n: 1, tool: 'find_messages', arguments: '{"query":"x"}', state: 'running' }]
    const first = async ({ events }: Awaited<ReturnType<typeof openStream>>): Promise<unknown> => {
      await until(() => {
        publish()
        return events.length > 0
      })
      assert.deepEqual([events[0]?.event, events[0]?.id], ['activity', ''])
      return JSON.parse(events[0]?.data ?? '')
    }
    for (const stream of [ada, root, operator]) assert.deepEqual(await first(stream), { ...shown, detail })
    for (const stream of others) assert.deepEqual(await first(stream), shown)
    await chats.ungrant('local:ada', 'admin', 'team')
    await ada.over()
    const again = await read('local:ada')
    assert.deepEqual(await first(again), shown)
    assert.deepEqual(plain.events, [])
    assert.ok(![root, operator, ...others].some((stream) => stream.isOver()))
  })
})

onEveryEngine('the sender at a link', (engine) => {
  test('is the person of the session, and reach follows their rights', async (t) => {
    const chats = await openChats(t, engine)
    const { token } = await chats.cli.call(verbs.issue_chat, { target_folder: 'team' })
    const path = `/chat/${token}/`
    const [root, ada] = [await signIn(chats, 'local:root'), await signIn(chats, 'local:ada')]
    const foreign = { Origin: 'https://evil.example' }
    for (const headers of [
      { Cookie: root.cookie, Origin: chats.origin },
      { Cookie: ada.cookie, 'Sec-Fetch-Site': 'same-origin' },
      {},
      // Pages of other sites do not speak as their visitor, and programs have no session.
      { Cookie: root.cookie, ...foreign },
      { Cookie: root.cookie },
    ])
      assert.equal((await chats.say(path, headers)).status, 200)
    const read = () => chats.host.engine.read((tx) => inbox.list(tx, {}, [['message_seq', 'asc']]))
    await until(async () => (await read()).length === 5)
    assert.deepEqual(
      (await read()).map(({ sender, reach }) => [sender.replace(/:.{12}$/, ':…'), reach]),
      [
        ['local:root', 'all'],
        ['local:ada', 'work'],
        ['anon:…', 'chat'],
        ['anon:…', 'chat'],
        ['anon:…', 'chat'],
      ],
    )
  })
})

onEveryEngine('the chat of a person', (engine) => {
  test('is created once by the form and answers its person', async (t) => {
    const chats = await openChats(t, engine)
    const { browser, path, own } = await openOwnChat(chats)
    assert.match(path, /^\/chat\/~[\w-]{43}\.[\w-]{43}\/$/)
    const again = await Promise.all([1, 2, 3].map(() => browser.post('/auth/chat', { folder: 'team' })))
    assert.deepEqual(new Set(again.map(({ headers }) => headers.get('location'))), new Set([path]))
    const rows = await chats.host.engine.read((tx) => routeTokens.list(tx))
    assert.deepEqual(
      rows.map(({ jid, owner_folder, target_folder, person }) => [jid, owner_folder, target_folder, person]),
      [[ADA_JID, 'team', 'team', 'local:ada']],
    )
    const opened = await chats.host.engine.read((tx) => audit.list(tx, { action: 'route_tokens.open_person_chat' }))
    assert.deepEqual(
      opened.map(({ actor, key, surface }) => [actor, key, surface]),
      [['local:ada', ADA_JID, 'dash']],
    )
    assert.equal((await browser.get(path)).status, 200)
    assert.equal((await browser.get(`${path}widget.js`)).status, 200)
    assert.equal((await browser.get(`${path}manifest.webmanifest`)).status, 200)
    // The page must not be kept for times without session.
    assert.equal((await browser.get(`${path}sw.js`)).status, 404)
    const dashboard = async () => / href="(\/dash\/[^"]*)">Dashboard/.exec(await (await browser.get(path)).text())?.[1]
    assert.equal(await dashboard(), '/dash/')
    const said = await chats.say(path, own)
    const { turn_id: id }: { turn_id: string } = JSON.parse(await said.text())
    const poll = async (headers: Record<string, string>) =>
      fetch(`${chats.url()}${path}${id}`, { redirect: 'manual', headers })
    await until(async () => JSON.parse(await (await poll(own)).text()).status === 'success')
    const [sent] = await chats.host.engine.read((tx) => messages.list(tx, { jid: ADA_JID, direction: 'in' }))
    // The proof in the path is no sign of the operator here.
    assert.deepEqual([sent?.sender, sent?.reach], ['local:ada', undefined])
    assert.equal((await chats.host.engine.read((tx) => inbox.find(tx, { id })))?.reach, 'work')
    // Everything of another person is as if it did not exist.
    const bob = await signIn(chats, 'local:bob')
    await chats.grant('local:bob', 'interact', 'team')
    assert.equal((await poll({ Cookie: bob.cookie })).status, 401)
    await chats.grant('local:ada', 'admin', 'team')
    assert.equal(await dashboard(), '/dash/folders/team')
  })

  test('has its owner as sender for an OpenAI client, also beside the session of another person', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    await chats.grant('local:ada', 'interact', 'team')
    const bearer = await chats.bearer({ sub: 'local:ada' })
    const { cookie } = await signIn(chats, 'local:bob')
    const lost = new AbortController()
    t.after(() => lost.abort())
    const headers = { Authorization: `Bearer ${bearer}`, Cookie: cookie, Origin: chats.origin }
    const init = { method: 'POST', ...json({ model: 'team', input: 'hi' }, headers), signal: lost.signal }
    fetch(`${chats.url()}/openai/v1/responses`, init).catch(() => {})
    const sent = () => chats.host.engine.read((tx) => messages.list(tx, { jid: ADA_JID }))
    await until(async () => (await sent()).length === 1)
    assert.equal((await sent())[0]?.sender, 'local:ada')
  })

  test('is closed to everyone else at every path, also to operators', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    const { path } = await openOwnChat(chats)
    const root = await signIn(chats, 'local:root')
    const unknown = await fetch(`${chats.url()}/chat/${'A'.repeat(43)}/`)
    const expected = await unknown.text()
    const id = '01890000-0000-7000-8000-000000000000'
    const strangers = [
      {},
      { Cookie: root.cookie, Origin: chats.origin },
      { Authorization: `Bearer ${await chats.bearer({ sub: 'local:root' })}` },
      { Authorization: `Bearer ${await chats.bearer({ sub: 'service:webd', kind: 'service' })}` },
    ]
    for (const headers of strangers) {
      for (const rest of ['', 'widget.js', 'events', 'mcp', id, `${id}/sse`, 'none']) {
        const answer = await fetch(`${chats.url()}${path}${rest}`, { redirect: 'manual', headers })
        assert.deepEqual([answer.status, await answer.text()], [401, expected], rest)
      }
      const posts = [path, `${path}mcp`, path.replace('/chat/', '/hook/').replace(/\/$/, '')]
      for (const url of posts) assert.equal((await chats.say(url, headers)).status, 401, url)
      assert.equal((await fetch(chats.url() + path, { method: 'DELETE', headers })).status, 401)
    }
    assert.equal(await chats.host.engine.read((tx) => messages.count(tx)), 0)
  })

  test('sends browsers without a session to sign in, and tells others nothing', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    const { path, browser, own } = await openOwnChat(chats)
    const open = (headers: object) =>
      fetch(chats.url() + path, { redirect: 'manual', headers: { Accept: 'text/html', ...headers } })
    const sent = await open({})
    assert.deepEqual(
      [sent.status, sent.headers.get('location')],
      [303, `/auth/sign-in?next=${encodeURIComponent(path)}`],
    )
    // A person who is signed in with another account is not sent in circles.
    assert.equal((await open({ Cookie: (await signIn(chats, 'local:bob')).cookie })).status, 401)
    // A page of another site gets nothing with the cookie, whatever it does.
    assert.equal((await open({ ...own, Origin: 'https://evil.example', Accept: '*/*' })).status, 401)
    assert.equal((await chats.say(path, { ...own, Origin: 'https://evil.example' })).status, 401)
    // Losing the right closes it at once.
    assert.equal((await chats.say(path, own)).status, 200)
    await chats.ungrant('local:ada', 'interact', 'team')
    assert.equal((await chats.say(path, own)).status, 401)
    assert.equal((await browser.get(path)).status, 401)
    assert.equal((await browser.post('/auth/chat', { folder: 'team' })).status, 403)
  })

  test('works with a bearer of the person', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    const { path } = await openOwnChat(chats)
    const headers = { Authorization: `Bearer ${await chats.bearer({ sub: 'local:ada' })}` }
    assert.equal((await chats.say(path, headers)).status, 200)
    assert.equal((await fetch(chats.url() + path, { headers })).status, 200)
  })

  test('ends open streams with the session, with the right, and with the bearer', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    const [ada, bob] = [await openOwnChat(chats), await openOwnChat(chats, 'local:bob')]
    const bearer = await chats.bearer({ sub: 'local:bob', ttlMs: 60_000 })
    const events = (path: string, headers: Record<string, string>) =>
      openStream(t, `${chats.url()}${path}events`, headers)
    const streams = [
      await events(ada.path, ada.own),
      await events(bob.path, bob.own),
      await events(bob.path, { Authorization: `Bearer ${bearer}` }),
    ]
    assert.deepEqual(
      streams.map(({ status }) => status),
      [200, 200, 200],
    )
    assert.equal((await ada.browser.post('/auth/sign-out')).status, 303)
    await streams[0]?.over()
    // Bearers are valid half a minute longer, because clocks differ.
    chats.clock.advance(91_000)
    await streams[2]?.over()
    assert.equal(streams[1]?.isOver(), false)
    await chats.ungrant('local:bob', 'interact', 'team')
    await streams[1]?.over()
  })

  test('is in no list, cannot be revoked or copied, and is deleted with its group', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    await openOwnChat(chats)
    const suffix = ADA_JID.slice('web:team/'.length)
    const root = chats.as(person('local:root'))
    assert.deepEqual((await root.call(verbs.list, {})).tokens, [])
    assert.deepEqual((await chats.cli.call(verbs.list_of, {})).tokens, [])
    assert.deepEqual((await chats.cli.call(verbs.list_of, { folder: 'team' })).tokens, [])
    const removal = await chats.cli.call(groupsResource.verbs.removal, { folder: 'team' })
    assert.doesNotMatch(JSON.stringify(removal), /u-/)
    for (const caller of [chats.cli, root, chats.as(person('local:ada'))])
      await assert.rejects(caller.call(verbs.revoke, { jid: ADA_JID }), isRefusal('not_found'))
    await assert.rejects(
      chats.cli.call(verbs.issue_chat, { target_folder: 'team', jid_suffix: suffix }),
      isRefusal('invalid', 'is reserved for chats of people'),
    )
    // A folder of the same name has another chat.
    await chats.groups(`team/${suffix}`)
    await assert.rejects(
      chats.cli.call(verbs.issue_chat, { target_folder: `team/${suffix}` }),
      isRefusal('conflict', 'is minted by another folder already'),
    )
    await chats.cli.call(groupsResource.verbs.remove, { folder: `team/${suffix}` })
    await chats.cli.call(groupsResource.verbs.remove, { folder: 'team' })
    assert.equal(await chats.host.engine.read((tx) => routeTokens.count(tx)), 0)
  })

  test('does not take the chat of another link', async (t) => {
    const chats = await openChats(t, engine, FRONT)
    const suffix = ADA_JID.slice('web:team/'.length)
    await chats.groups(`team/${suffix}`)
    await chats.cli.call(verbs.issue_chat, { target_folder: `team/${suffix}` })
    await chats.grant('local:ada', 'interact', 'team')
    const ada = await signIn(chats, 'local:ada')
    assert.equal((await ada.post('/auth/chat', { folder: 'team' })).status, 409)
  })
})

test('the page of a chat changes nothing, and its form needs the right and the CSRF token', async (t) => {
  const chats = await openChats(t, 'sqlite', FRONT)
  const ada = await signIn(chats, 'local:ada')
  const page = await ada.get('/auth/chat?folder=team')
  assert.equal(page.status, 200)
  assert.match(await page.text(), /<button[^>]*>Open the chat/)
  assert.equal((await ada.get('/auth/chat?folder=..%2Fx')).status, 400)
  assert.equal((await fetch(`${chats.url()}/auth/chat?folder=team`, { redirect: 'manual' })).status, 303)
  assert.equal((await ada.post('/auth/chat', { folder: 'team' })).status, 403)
  assert.equal((await ada.post('/auth/chat', { folder: 'none' })).status, 403)
  await chats.grant('local:ada', 'interact', '**')
  assert.equal((await ada.post('/auth/chat', { folder: 'none' })).status, 404)
  assert.equal((await ada.post('/auth/chat', { folder: 'team', csrf: 'x' })).status, 403)
  assert.equal((await ada.post('/auth/chat', { folder: 'team' }, { Origin: 'https://evil.example' })).status, 403)
  assert.equal(await chats.host.engine.read((tx) => routeTokens.count(tx)), 0)
})
