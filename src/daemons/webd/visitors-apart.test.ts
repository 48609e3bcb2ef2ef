// Links that keep their visitors apart: whatever one visitor asks for, nothing of another is shown.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine } from '../../../test/support/host.ts'
import {
  type HttpAnswer,
  json,
  type LinkHost,
  type MintedLink,
  openLinkHost,
  openStream,
} from '../../../test/support/link-host.ts'
import { run } from '../../../test/support/sql.ts'
import { openHttpTools } from '../../../test/support/tools.ts'
import { until } from '../../../test/support/until.ts'
import { chatFiles } from '../../core/files/chat-files.ts'
import { storedBytes } from '../../core/links/storage-use.ts'
import { linkJidOf, visitorPart } from '../../core/links/visitor-chats.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'

const HTML = { Accept: 'text/html' }
const DAEMONS = ['webd', 'routd', 'runed']
const KEY = { ann: 'A'.repeat(43), bob: `${'B'.repeat(42)}A` }
const as = (key: string): Record<string, string> => ({ 'X-Visitor': key })

async function post(
  s: LinkHost,
  { chat }: MintedLink,
  content: string,
  key: string,
  topic?: string,
): Promise<HttpAnswer> {
  const { headers, ...init } = json({ content, ...(topic === undefined ? {} : { topic }) })
  return s.to(`POST ${chat}`, { ...init, headers: { ...headers, ...as(key) } })
}

/** Waits for the answer. */
async function speakAs(s: LinkHost, link: MintedLink, content: string, key: string, topic?: string): Promise<string> {
  const { status, text, body } = await post(s, link, content, key, topic)
  assert.equal(status, 200, text)
  const turn = String(body.turn_id)
  await until(async () => (await s.to(`GET ${link.chat}${turn}`, { headers: as(key) })).body.status !== 'pending')
  return turn
}

onEveryEngine('a link that keeps visitors apart', (engine) => {
  test('shows each visitor only their own messages, at every URL', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: DAEMONS })
    const link = await s.mintChat({ jid_suffix: 'site', visitors: 'apart' })
    const turn = await speakAs(s, link, 'ann-secret', KEY.ann, 'plans')
    const other = await speakAs(s, link, 'bob-secret', KEY.bob, 'plans')
    const visitors: [string, Record<string, string>, readonly string[]][] = [
      ['ann', as(KEY.ann), [turn]],
      ['bob', as(KEY.bob), [other]],
      ['nobody', {}, []],
      ['a guess', as(`${'C'.repeat(42)}A`), []],
    ]
    for (const [name, headers, own] of visitors) {
      for (const id of [turn, other]) {
        const status = own.includes(id) ? 200 : 404
        for (const path of [id, `${id}?after=0`, `${id}/sse`, `${id}/sse?deltas=1`]) {
          const found = await s.to(`GET ${link.chat}${path}`, { headers })
          assert.equal(found.status, status, `${name} ${path} ${found.text}`)
          assert.equal(found.text.includes('secret'), status === 200)
        }
        const page = await s.to(`GET ${link.chat}${id}`, { headers: { ...headers, ...HTML } })
        assert.deepEqual([page.status, page.text.includes('secret')], [status, status === 200])
        const stop = await s.to(`POST ${link.chat}${id}/stop`, { headers })
        assert.equal(stop.status, status === 200 ? 409 : 404)
      }
      for (const query of ['', '?topic=plans', '?topic=plans&deltas=1&last=200', '?after=0']) {
        const { status, events, cut } = await openStream(t, `${s.url('webd')}${link.chat}events${query}`, headers)
        assert.equal(status, 200)
        const mine = `${name}-secret`
        if (own.length > 0) await until(() => events.some(({ data }) => data.includes(mine)))
        const shown = JSON.stringify(events)
        for (const secret of ['ann-secret', 'bob-secret']) assert.equal(shown.includes(secret), secret === mine, query)
        cut()
      }
      const tools = await openHttpTools(t, `${s.url('webd')}${link.chat}mcp`, { headers })
      const history = JSON.stringify(await tools.call('get_history', { topic: 'plans' }))
      assert.deepEqual(
        ['ann', 'bob'].filter((who) => history.includes(`${who}-secret`)),
        own.length > 0 ? [name] : [],
      )
    }

    const open = (headers: Record<string, string>) =>
      openStream(t, `${s.url('webd')}${link.chat}events?deltas=1&after=0`, headers)
    const [mine, theirs, none] = [await open(as(KEY.ann)), await open(as(KEY.bob)), await open({})]
    await theirs.count(3)
    await speakAs(s, link, 'one more', KEY.ann)
    await until(() => mine.events.some(({ data }) => data.includes('one more')))
    assert.ok(!JSON.stringify([theirs.events, none.events]).includes('one more'))
    assert.deepEqual(none.events, [])
  })

  test('keeps conversations of the same topic apart for the agent, also with more tools', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: DAEMONS })
    for (const tools of ['chat', 'work', 'all'] as const) {
      const link = await s.mintChat({ jid_suffix: tools, tools, visitors: 'apart' })
      for (const key of [KEY.ann, KEY.bob]) await speakAs(s, link, 'hello', key, 'plans')
    }
    const { rows } = await s.host.engine.read((tx) => run(tx, 'select distinct jid, topic, folder from turns'))
    assert.equal(rows.length, 6)
    assert.equal(new Set(rows.map(({ topic }) => topic)).size, 6)
    assert.ok(rows.every(({ folder, jid, topic }) => folder === 'main' && String(topic).includes(String(jid))))
  })

  test('counts all visitors for the link, and lists their messages there', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: DAEMONS })
    const link = await s.mintChat({ jid_suffix: 'my_site', visitors: 'apart' })
    await s.mintChat({ jid_suffix: 'myxsite', visitors: 'apart' })
    for (const key of [KEY.ann, KEY.bob]) await speakAs(s, link, `from ${key}`, key)
    const used = await s.host.engine.read((tx) => run(tx, `select name, bytes from storage_use where scope = 'chat'`))
    const bytesOf = (jid: string): number => Number(used.rows.find(({ name }) => name === jid)?.bytes ?? 0)
    const [ann, bob] = [bytesOf(link.jid + visitorPart(KEY.ann)), bytesOf(link.jid + visitorPart(KEY.bob))]
    assert.ok(ann > 0 && bob > 0)
    assert.equal(bytesOf(link.jid), ann + bob)
    const { deliveries, deliver_test } = routeTokensResource.verbs
    const list = async () => (await s.cli.call(deliveries, { jid: link.jid })).deliveries
    assert.deepEqual(
      (await list()).map(({ text }) => text),
      [`from ${KEY.bob}`, `from ${KEY.ann}`],
    )
    const [newest] = await list()
    const older = await s.cli.call(deliveries, { jid: link.jid, before: newest?.at })
    assert.deepEqual(
      older.deliveries.map(({ text }) => text),
      [`from ${KEY.ann}`],
    )
    await s.cli.call(deliver_test, { jid: link.jid })
    const stored = await s.messages()
    assert.ok(stored.every(({ jid, target_folder }) => linkJidOf(jid) === link.jid && target_folder === 'main'))
    assert.equal(new Set(stored.map(({ jid }) => jid)).size, 3)
  })
})

test('the key of a visitor', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat({ jid_suffix: 'site', visitors: 'apart' })
  const together = await s.mintChat({ jid_suffix: 'open' })

  await t.test('is made for a post without one, and works from then on', async () => {
    const first = await s.to(`POST ${link.chat}`, json({ content: 'hello' }))
    const key = first.headers.get('x-visitor') ?? ''
    assert.match(key, /^[\w-]{43}$/)
    assert.equal(first.headers.get('set-cookie'), null)
    assert.match(first.headers.get('access-control-expose-headers') ?? '', /\bX-Visitor\b/)
    const turn = String(first.body.turn_id)
    assert.equal((await s.to(`GET ${link.chat}${turn}`)).status, 404)
    assert.equal((await s.to(`GET ${link.chat}${turn}`, { headers: as(key) })).status, 200)
    const second = await post(s, link, 'again', key)
    assert.equal(second.headers.get('x-visitor'), null)
    const [one, two] = (await s.messages()).map(({ jid }) => jid)
    assert.deepEqual([one, two], [link.jid + visitorPart(key), link.jid + visitorPart(key)])
    const preflight = await s.to(`OPTIONS ${link.chat}`)
    assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /\bX-Visitor\b/)
  })

  await t.test('is a cookie of the link where a page has no script', async () => {
    const form = { 'Content-Type': 'application/x-www-form-urlencoded', ...HTML }
    const posted = await s.to(`POST ${link.chat}`, { headers: form, body: 'content=hello' })
    const cookie = posted.headers.get('set-cookie') ?? ''
    assert.match(
      cookie,
      new RegExp(`^svc_visitor_\\w+=[\\w-]{43}; Path=${link.chat}; Max-Age=\\d+; HttpOnly; SameSite=Lax$`),
    )
    const page = `${link.chat}${String(posted.headers.get('location')).slice(2)}`
    const [Cookie = ''] = cookie.split(';')
    assert.equal((await s.to(`GET ${page}`, { headers: HTML })).status, 404)
    assert.match((await s.to(`GET ${page}`, { headers: { ...HTML, Cookie } })).text, /hello/)
    const next = await s.to(`POST ${link.chat}`, { headers: { ...form, Cookie }, body: 'content=next' })
    assert.deepEqual([next.status, next.headers.get('set-cookie')], [303, null])
    const stopped = await s.to(`POST ${page}/stop`, { headers: { ...HTML, Cookie } })
    // Nothing routes messages here.
    assert.equal(stopped.status, 503)
    const [last, before] = (await s.messages()).reverse().map(({ jid }) => jid)
    assert.equal(last, before)
    // A form on another site is sent without the cookie. A new one would replace that of the visitor.
    const foreign = { ...form, 'Sec-Fetch-Site': 'cross-site', Origin: 'https://elsewhere.example' }
    const answer = await s.to(`POST ${link.chat}`, { headers: foreign, body: 'content=unasked' })
    assert.deepEqual([answer.status, answer.headers.get('set-cookie')], [303, null])
  })

  await t.test('is refused when malformed, and ignored where visitors are together', async () => {
    for (const key of ['', 'x', 'A'.repeat(42), 'A'.repeat(44), `${'A'.repeat(42)}B`, `${KEY.ann}, ${KEY.bob}`]) {
      for (const path of [`POST ${link.chat}`, `GET ${link.chat}events`]) {
        const init = path.startsWith('POST') ? json({ content: 'x' }) : { headers: {} }
        const answer = await s.to(path, { ...init, headers: { ...init.headers, ...as(key) } })
        assert.deepEqual([answer.status, answer.body.code], [400, 'invalid'], `${path} ${key}`)
        assert.match(String(answer.body.detail), /X-Visitor must be 32 random bytes as 43 characters of base64url/)
      }
      const { status, headers } = await post(s, together, 'x', key)
      assert.deepEqual([status, headers.get('x-visitor')], [200, null])
    }
    assert.ok((await s.messages(together.jid)).length > 0)
  })

  await t.test('is needed with an Idempotency-Key, which is of one visitor', async () => {
    const keyed = { ...json({ content: 'once' }) }
    const send = (more: Record<string, string>) =>
      s.to(`POST ${link.chat}`, { ...keyed, headers: { ...keyed.headers, 'Idempotency-Key': 'k1', ...more } })
    const refused = await send({})
    assert.deepEqual([refused.status, refused.body.code], [400, 'invalid'])
    const [first, again, other] = [await send(as(KEY.ann)), await send(as(KEY.ann)), await send(as(KEY.bob))]
    assert.equal(first.body.turn_id, again.body.turn_id)
    assert.equal(other.status, 200)
    assert.notEqual(other.body.turn_id, first.body.turn_id)
  })

  await t.test('is needed to send by MCP', async () => {
    const tools = await openHttpTools(t, `${s.url('webd')}${link.chat}mcp`)
    assert.match(
      await tools.refusal('send', { content: 'x' }),
      /needs the key of its visitor\nhint: send a header X-Visitor/,
    )
  })

  await t.test('is in no log and in no row', async () => {
    await post(s, link, 'hello', KEY.ann)
    assert.ok(!JSON.stringify(s.logged()).includes(KEY.ann))
    for (const table of ['messages', 'rounds', 'chat_events', 'idempotency_keys']) {
      const { rows } = await s.host.engine.read((tx) => run(tx, `select * from ${table}`))
      assert.ok(!JSON.stringify(rows).includes(KEY.ann), table)
    }
  })
})

test('a revoked link ends for all of its visitors', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat({ jid_suffix: 'site', visitors: 'apart' })
  await post(s, link, 'hello', KEY.ann)
  await s.revoke(link)
  assert.equal((await post(s, link, 'hello', KEY.ann)).status, 401)
  assert.equal((await s.to(`GET ${link.chat}events`, { headers: as(KEY.ann) })).status, 401)
})

onEveryEngine('files at a link that keeps visitors apart', (engine) => {
  test('belong to their visitor, and count for the link', async (t) => {
    const s = await openLinkHost(t, { engine })
    const link = await s.mintChat({ jid_suffix: 'site', visitors: 'apart' })
    const body = new FormData()
    body.append('content', 'look')
    body.append('file', new File(['secret of ann'], 'note.txt'))
    const posted = await s.to(`POST ${link.chat}`, { body, headers: as(KEY.ann) })
    assert.equal(posted.status, 200, posted.text)
    const [file] = await s.host.engine.read((tx) => chatFiles.list(tx))
    const jid = link.jid + visitorPart(KEY.ann)
    assert.equal(file?.jid, jid)
    const path = `GET ${link.chat}files/${file?.id}`
    assert.equal((await s.to(path, { headers: as(KEY.ann) })).text, 'secret of ann')
    for (const headers of [{}, as(KEY.bob)] as Record<string, string>[])
      assert.equal((await s.to(path, { headers })).status, 404)
    const storedAt = (name: string) => s.host.engine.read((tx) => storedBytes(tx, 'chat', name))
    await until(async () => (await storedAt(jid)) > 512)
    assert.equal(await storedAt(link.jid), await storedAt(jid))
  })
})
