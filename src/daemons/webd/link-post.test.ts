import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { isRefusal, onEveryEngine } from '../../../test/support/host.ts'
import { json, type LinkHost, openLinkHost } from '../../../test/support/link-host.ts'
import { groups } from '../../core/groups/groups.ts'
import { hashToken } from '../../core/links/link-token.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { messages } from '../../core/messages/messages.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'

const MIB = 1024 * 1024

/** Runs the tests on one served instance; each mints its own links. */
function onEveryStore(
  title: string,
  tests: Readonly<Record<string, (s: LinkHost, t: TestContext) => Promise<void>>>,
): void {
  onEveryEngine(title, (engine) => {
    test(title, async (t) => {
      const s = await openLinkHost(t, { engine })
      await s.groups('team', 'team/forms', 'team/two')
      for (const [name, run] of Object.entries(tests)) await t.test(name, (sub) => run(s, sub))
    })
  })
}

/** Returns an unused suffix. */
const fresh = createSuffixes()

function createSuffixes(): () => { jid_suffix: string } {
  let count = 0
  return () => ({ jid_suffix: `s${count++}` })
}

onEveryStore('a POST at a link', {
  'a hook stores the body verbatim, responds 204, and opens no round': async (s) => {
    const link = await s.mintHook(fresh())
    const bytes = Uint8Array.from({ length: 512 }, (_, at) => at % 256)
    const headers = { 'Content-Type': 'application/json', 'X-Hub-Signature-256': 'sha256=00', Cookie: 'a=b' }
    const { status, text, headers: answered } = await s.to(`POST ${link.hook}`, { body: bytes, headers })
    assert.deepEqual([status, text, answered.get('content-type')], [204, '', null])
    const [row, more] = await s.messages(link.jid)
    assert.deepEqual(Buffer.from(row?.content ?? []), Buffer.from(bytes))
    assert.deepEqual(
      [row?.sender, row?.direction, row?.content_type, more],
      ['ci', 'in', 'application/json', undefined],
    )
    assert.equal(
      (await s.rounds()).some(({ jid }) => jid === link.jid),
      false,
    )
  },

  'an empty body at a hook is an empty message; every byte is kept': async (s) => {
    const link = await s.mintHook(fresh())
    const bodies = [
      new Uint8Array(),
      Buffer.from('ff00fe80', 'hex'),
      Buffer.from('\ud800 ä\r\n\0'),
      Buffer.from('\ufeffx'),
    ]
    for (const body of bodies) assert.equal((await s.to(`POST ${link.hook}`, { body })).status, 204)
    assert.deepEqual(
      (await s.messages(link.jid)).map(({ content }) => Buffer.from(content).toString('hex')),
      bodies.map((body) => Buffer.from(body).toString('hex')),
    )
  },

  'a chat responds with the round handle, whose turn id is the message id': async (s) => {
    const link = await s.mintChat(fresh())
    const { status, body } = await s.to(`POST ${link.chat}`, json({ content: ' why? ', topic: 'bills' }))
    assert.equal(status, 200)
    const [row] = await s.messages(link.jid)
    assert.deepEqual(body, {
      user: { id: row?.id, content: ' why? ', created_at: row?.created_at },
      turn_id: row?.id,
      status: 'pending',
    })
    assert.deepEqual([row?.topic, row?.turn_id], ['bills', row?.id])
    assert.equal((await s.rounds()).find(({ id }) => id === row?.id)?.status, 'pending')
  },

  'the chat URL accepts JSON, forms and raw bytes': async (s) => {
    const link = await s.mintChat(fresh())
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' }
    assert.equal((await s.to(`POST ${link.chat}`, { body: 'content=a+b&topic=t', headers: form })).status, 200)
    assert.equal((await s.to(`POST ${link.chat}`, { body: Buffer.from('\0\xff', 'latin1') })).status, 200)
    // Raw and multipart bodies are accepted.
    const data = new FormData()
    data.set('content', 'hi')
    data.set('topic', 'm')
    assert.equal((await s.to(`POST ${link.chat}`, { body: data })).status, 200)
    const [first, second, third] = await s.messages(link.jid)
    assert.deepEqual([Buffer.from(first?.content ?? []).toString(), first?.topic], ['a b', 't'])
    assert.deepEqual([Buffer.from(second?.content ?? []).toString('hex'), second?.topic], ['00ff', undefined])
    assert.deepEqual([Buffer.from(third?.content ?? []).toString(), third?.topic], ['hi', 'm'])
    const { status, body } = await s.to(`POST ${link.chat}`, json({ topic: 'x' }))
    assert.deepEqual([status, body.code, body.detail], [400, 'invalid', 'content is required'])
  },

  'both kinds of tokens work at both URLs': async (s) => {
    const [web, hook] = [await s.mintChat(fresh()), await s.mintHook(fresh())]
    assert.equal((await s.to(`POST ${web.hook}`, json({ content: 'x' }))).status, 204)
    assert.equal((await s.to(`POST ${hook.chat}`, json({ action: 'opened' }))).status, 200)
    // The hook URL parses nothing; at the chat URL a hook's JSON without content is stored raw.
    assert.deepEqual(
      (await Promise.all([s.messages(web.jid), s.messages(hook.jid)])).map(([row]) =>
        Buffer.from(row?.content ?? []).toString(),
      ),
      ['{"content":"x"}', '{"action":"opened"}'],
    )
    assert.equal((await s.to(`POST ${hook.chat}`, json({ content: 'hi', topic: 't' }))).status, 200)
    assert.equal((await s.messages(hook.jid)).at(-1)?.topic, 't')
    assert.equal((await s.to(`POST ${hook.chat}`)).body.status, 'pending')
    assert.equal((await s.messages(hook.jid)).at(-1)?.content.byteLength, 0)
    // Such as a mail with an attachment: stored unchanged.
    const mail = new FormData()
    mail.set('subject', 'hi')
    mail.set('attachment', new File(['x'], 'x.txt'))
    assert.equal((await s.to(`POST ${hook.chat}`, { body: mail })).status, 200)
    const stored = (await s.messages(hook.jid)).at(-1)
    assert.match(stored?.content_type ?? '', /^multipart\/form-data; boundary=/)
    assert.match(Buffer.from(stored?.content ?? []).toString(), /filename="x.txt"/)
  },

  'the sender of a hook token is its source at both URLs, also with a suffix': async (s) => {
    const link = await s.mintHook({ source_label: 'github', ...fresh() })
    await s.to(`POST ${link.hook}`, { body: 'a' })
    await s.to(`POST ${link.chat}`, { body: 'b' })
    assert.deepEqual(
      (await s.messages(link.jid)).map(({ sender }) => sender),
      ['github', 'github'],
    )
  },

  'the sender of a web token is a pseudonym, the same at both URLs': async (s) => {
    const [one, other] = [await s.mintChat(fresh()), await s.mintChat(fresh())]
    await s.to(`POST ${one.hook}`, { body: 'a' })
    await s.speak(one, 'b')
    await s.speak(other, 'c')
    const senders = [...(await s.messages(one.jid)), ...(await s.messages(other.jid))].map(({ sender }) => sender)
    assert.match(senders[0] ?? '', /^anon:[0-9a-f]{8,}$/)
    assert.equal(senders[0], senders[1])
    assert.notEqual(senders[0], senders[2])
    assert.ok(!senders.join().includes('127.0.0.1'))
  },

  'a signed-in person is the sender, and other credentials are ignored': async (s) => {
    const link = await s.mintChat(fresh())
    const postAs = async (value: string) => {
      const answer = await s.to(`POST ${link.chat}`, json({ content: 'x' }, { Authorization: value }))
      assert.equal(answer.status, 200, value)
      const { turn_id } = JSON.parse(answer.text)
      const ways = [`${link.chat}`, `${link.chat}${turn_id}`, `${link.chat}events`, `${link.chat}${turn_id}/sse`]
      for (const path of ways)
        assert.equal(
          (await s.to(`HEAD ${path}`, { headers: { Authorization: value } })).status,
          200,
          `${value} ${path}`,
        )
    }
    const service = await s.bearer({ sub: 'service:routd', kind: 'service' })
    const [header, payload] = (await s.bearer({ sub: 'github:8' })).split('.')
    const others = [
      'Basic dTpw',
      'Token abc',
      'nonsense',
      '',
      'Bearer',
      'Bearer x.y.z',
      `Bearer ${header}.${payload}.AA`,
    ]
    await postAs(`Bearer ${await s.bearer({ sub: 'github:7' })}`)
    for (const value of [...others, `Bearer ${service}`]) await postAs(value)
    const [first, ...more] = (await s.messages(link.jid)).map(({ sender }) => sender)
    assert.equal(first, 'github:7')
    assert.equal(more.length, others.length + 1)
    for (const sender of more) assert.match(sender, /^anon:[0-9a-f]{12}$/)
    // The sender of a hook is its source, whatever Authorization a vendor sends.
    const hook = await s.mintHook(fresh())
    assert.equal((await s.to(`POST ${hook.hook}`, { headers: { Authorization: 'Basic x' } })).status, 204)
  },

  'a message keeps the target folder of its link, whatever its JID': async (s) => {
    const web = await s.mintChat({ folder: 'team', jid_suffix: 'inbox' })
    const hook = await s.mintHook({ folder: 'team', source_label: 'ci', jid_suffix: 'nightly' })
    await s.speak(web, 'a')
    await s.to(`POST ${hook.hook}`, { body: 'b' })
    for (const { jid } of [web, hook]) assert.equal((await s.messages(jid))[0]?.target_folder, 'team')
    const round = (await s.rounds()).find(({ jid }) => jid === web.jid)
    assert.equal(round?.target_folder, 'team')
  },

  'a legacy row without target and source derives them from the JID': async (s) => {
    const cases = {
      'web:team/forms': ['team/forms', /^anon:/],
      'hook:team/forms/git': ['team/forms', /^git$/],
      'hook:solo': ['solo', /^solo$/],
    } as const
    for (const [jid, [folder, sender]] of Object.entries(cases)) {
      const raw = `legacy-${jid}`
        .replace(/[^A-Za-z]/g, '-')
        .padEnd(42, '0')
        .slice(0, 42)
      const token = `${raw}A`
      await s.host.engine.transaction((tx) =>
        routeTokens.insert(tx, {
          token_hash: hashToken(token),
          jid,
          owner_folder: 'main',
          created_at: '2020-01-01T00:00:00.000Z',
        }),
      )
      assert.equal((await s.to(`POST /hook/${token}`, { body: 'x' })).status, 204)
      const [row] = await s.messages(jid)
      assert.equal(row?.target_folder, folder)
      assert.match(row?.sender ?? '', sender)
    }
  },

  'the context of the link is copied to each message, and stays after a revoke and a new mint': async (s) => {
    const suffix = fresh()
    const old = await s.mintHook({ ...suffix, context: 'be </link-context> brief' })
    await s.to(`POST ${old.hook}`, { body: '1' })
    const also = await s.mintHook({ ...suffix, context: 'be long' })
    await s.to(`POST ${also.hook}`, { body: '2' })
    await s.to(`POST ${old.hook}`, { body: '3' })
    await s.revoke(old)
    const none = await s.mintHook(suffix)
    await s.to(`POST ${none.hook}`, { body: '4' })
    assert.deepEqual(
      (await s.messages(old.jid)).map(({ link_context, content }) => [Buffer.from(content).toString(), link_context]),
      [
        ['1', 'be </link-context> brief'],
        ['2', 'be long'],
        ['3', 'be </link-context> brief'],
        ['4', undefined],
      ],
    )
  },

  'an unknown or revoked token is 401, whatever else is wrong': async (s) => {
    const link = await s.mintChat(fresh())
    await s.speak(link, 'x')
    await s.revoke(link)
    const requests: Record<string, Omit<RequestInit, 'method'>> = {
      'an ordinary body': json({ content: 'x' }),
      'no content': json({}),
      'no JSON': { body: '{', headers: { 'Content-Type': 'application/json' } },
      'another charset': { body: '{}', headers: { 'Content-Type': 'application/json; charset=utf-16' } },
      'too large a body': { body: new Uint8Array(MIB + 1) },
      'a bad key': json({ content: 'x' }, { 'Idempotency-Key': 'a b' }),
    }
    for (const [what, init] of Object.entries(requests)) {
      const { status, body } = await s.to(`POST ${link.chat}`, init)
      assert.deepEqual([status, body.detail], [401, 'there is no such link, or it was revoked'], what)
    }
    assert.equal((await s.to(`POST ${link.hook}`)).status, 401)
    assert.equal((await s.messages(link.jid)).length, 1)
    // After minting again, the old URL stays revoked.
    const again = await s.mintChat({ jid_suffix: link.jid.split('/')[1] ?? '' })
    assert.equal(again.jid, link.jid)
    assert.equal((await s.to(`POST ${link.hook}`)).status, 401)
    assert.equal((await s.to(`POST ${again.hook}`)).status, 204)
  },

  '1 MiB is accepted and one byte more is 413, by its declared length or its bytes': async (s) => {
    const link = await s.mintHook(fresh())
    assert.equal((await s.to(`POST ${link.hook}`, { body: new Uint8Array(MIB) })).status, 204)
    const { status, body } = await s.to(`POST ${link.hook}`, { body: new Uint8Array(MIB + 1) })
    assert.deepEqual([status, body.code], [413, 'too_large'])
    let sent = 0
    const chunks = new ReadableStream({
      pull: async (controller) => {
        await new Promise(setImmediate)
        if (sent++ < 64) controller.enqueue(new Uint8Array(65_536))
        else controller.close()
      },
    })
    const long = { body: chunks, duplex: 'half' } as unknown as RequestInit
    const cut = await s.to(`POST ${link.hook}`, long).catch((error: unknown) => String(error))
    // A client that keeps sending may find the connection closed before it reads the response.
    if (typeof cut !== 'string') assert.equal(cut.status, 413)
    assert.equal((await s.messages(link.jid)).length, 1)
    // The chat URL has the same limit.
    const chat = await s.mintChat(fresh())
    assert.equal((await s.to(`POST ${chat.chat}`, { body: 'x'.repeat(MIB) })).status, 200)
    assert.equal((await s.to(`POST ${chat.chat}`, { body: 'x'.repeat(MIB + 1) })).status, 413)
  },

  'the rate is per token, counts appended messages, and 429 says when to retry': async (s) => {
    const [link, other] = [await s.mintChat(fresh()), await s.mintChat(fresh())]
    // Refused posts, repeats and reads do not count.
    for (let time = 0; time < 70; time++) await s.to(`GET ${link.chat}`)
    for (let time = 0; time < 10; time++) assert.equal((await s.to(`POST ${link.chat}`, json({}))).status, 400)
    for (let time = 0; time < 10; time++)
      assert.equal((await s.to(`POST ${link.chat}`, json({ content: 'x' }, { 'Idempotency-Key': 'k' }))).status, 200)
    for (let time = 1; time < 60; time++) await s.speak(link, `${time}`)
    const { status, headers, body } = await s.to(`POST ${link.chat}`, json({ content: 'x' }))
    assert.deepEqual([status, body.code, headers.get('retry-after')], [429, 'rate_limited', '1'])
    assert.match(headers.get('ratelimit') ?? '', /^"web";r=0;t=1$/)
    assert.match(headers.get('ratelimit-policy') ?? '', /^"web";q=60;w=60$/)
    assert.equal((await s.messages(link.jid)).length, 60)
    // Each token has its own bucket, also for the same JID; reads are not limited.
    await s.speak(other, 'x')
    await s.speak(await s.mintChat({ jid_suffix: link.jid.split('/')[1] ?? '' }), 'x')
    assert.equal((await s.to(`GET ${link.chat}`)).status, 200)
    s.clock.advance(1000)
    await s.speak(link, 'again')
    assert.equal((await s.to(`POST ${link.chat}`, json({ content: 'x' }))).status, 429)
    // After a revoke the response is 401, not 429.
    await s.revoke(link)
    assert.equal((await s.to(`POST ${link.chat}`, json({ content: 'x' }))).status, 401)
  },

  'a hook has ten times the rate of a chat': async (s) => {
    const link = await s.mintHook(fresh())
    const statuses = await Promise.all(Array.from({ length: 610 }, () => s.to(`POST ${link.hook}`, { body: 'x' })))
    const taken = statuses.filter(({ status }) => status === 204).length
    assert.equal(taken, 600)
    const refusal = statuses.find(({ status }) => status === 429)
    assert.match(refusal?.headers.get('ratelimit-policy') ?? '', /^"hook";q=600/)
    assert.equal((await s.messages(link.jid)).length, 600)
  },

  'a repeat with the same Idempotency-Key records nothing and gets the first response': async (s) => {
    const link = await s.mintChat(fresh())
    const ask = (content: string, key = 'abc', to = link.chat) =>
      s.to(`POST ${to}`, json({ content }, { 'Idempotency-Key': key }))
    const first = await ask('x')
    s.clock.advance(5000)
    const second = await ask('x')
    assert.deepEqual([second.status, second.body], [200, first.body])
    const differs = await ask('y')
    assert.deepEqual([differs.status, differs.body.code], [422, 'unprocessable'])
    assert.equal((await ask('y', 'other')).status, 200)
    // The response at the other URL differs.
    assert.equal((await ask('x', 'abc', link.hook)).status, 422)
    assert.equal((await s.messages(link.jid)).length, 2)
    s.clock.advance(24 * 3_600_000)
    assert.notEqual((await ask('x')).body.turn_id, first.body.turn_id)
  },

  'the same webhook-id or svix-id and body is a repeat, another body is a new message': async (s) => {
    for (const name of ['webhook-id', 'svix-id']) {
      const link = await s.mintHook(fresh())
      const send = (body: string) => s.to(`POST ${link.hook}`, { body, headers: { [name]: 'msg_1' } })
      for (const body of ['a', 'a', 'b', 'b', 'a', 'b']) assert.equal((await send(body)).status, 204)
      assert.deepEqual(
        (await s.messages(link.jid)).map(({ content }) => Buffer.from(content).toString()),
        ['a', 'b'],
      )
    }
  },

  'an invalid key is 400 and records nothing': async (s) => {
    const link = await s.mintHook(fresh())
    for (const key of ['', 'k'.repeat(256), 'k'.repeat(4096), 'a b', 'k\u00e4'])
      assert.equal((await s.to(`POST ${link.hook}`, { headers: { 'Idempotency-Key': key } })).status, 400, key)
    assert.equal((await s.to(`POST ${link.hook}`, { headers: { 'Idempotency-Key': 'k'.repeat(255) } })).status, 204)
    assert.equal((await s.messages(link.jid)).length, 1)
  },

  'concurrent posts with one key are one message and get one response': async (s) => {
    const link = await s.mintChat(fresh())
    const init = json({ content: 'x' }, { 'Idempotency-Key': 'k' })
    const answers = await Promise.all(Array.from({ length: 20 }, () => s.to(`POST ${link.chat}`, init)))
    assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1)
    assert.equal((await s.messages(link.jid)).length, 1)
  },

  'a repeat gets its first response over the rate, and a new message does not': async (s) => {
    const link = await s.mintChat(fresh())
    const ask = (content: string, headers: Record<string, string>) =>
      s.to(`POST ${link.chat}`, json({ content }, headers))
    const [key, id] = [{ 'Idempotency-Key': 'k' }, { 'webhook-id': 'w' }]
    const first = [await ask('x', key), await ask('x', id)]
    for (let time = 2; time < 60; time++) await s.speak(link, `${time}`)
    assert.equal((await ask('x', {})).status, 429)
    for (const [at, headers] of [key, id].entries()) {
      const again = await ask('x', headers)
      assert.deepEqual([again.status, again.body], [200, first[at]?.body])
      // Another body or another key is not a repeat.
      assert.equal((await ask('y', headers)).status, 429)
    }
    assert.equal((await ask('x', { 'Idempotency-Key': 'other' })).status, 429)
    assert.equal((await s.messages(link.jid)).length, 60)
    await s.revoke(link)
    assert.equal((await ask('x', key)).status, 401)
  },

  'ids are unique UUIDs of version 7': async (s) => {
    const link = await s.mintHook(fresh())
    await Promise.all(Array.from({ length: 100 }, () => s.to(`POST ${link.hook}`)))
    const ids = (await s.messages(link.jid)).map(({ id }) => id)
    assert.equal(new Set(ids).size, 100)
    for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  },

  'a link is 401 after its folder is deleted': async (s) => {
    await s.groups('doomed')
    const link = await s.mintHook({ folder: 'doomed' })
    assert.equal((await s.to(`POST ${link.hook}`)).status, 204)
    await s.host.engine.transaction((tx) => groups.remove(tx, { folder: 'doomed' }))
    assert.equal((await s.to(`POST ${link.hook}`)).status, 401)
  },

  'a JID is not shared by two folders': async (s) => {
    await s.mintChat({ folder: 'team', jid_suffix: 'two' })
    await assert.rejects(s.mintChat({ folder: 'team/two' }), isRefusal('conflict'))
  },

  'a verifying link accepts only GitHub’s signatures': async (s) => {
    const secret = 'a secret of theirs'
    const { token, jid } = await s.cli.call(routeTokensResource.verbs.issue_operator_hook, {
      target_folder: 'main',
      source_label: 'github',
      ...fresh(),
      verify: 'github',
      verify_secret: secret,
    })
    const body = '{"action":"opened"}'
    const signature = (text: string) => `sha256=${createHmac('sha256', secret).update(text).digest('hex')}`
    const send = (path: string, value?: string) =>
      s.to(`POST ${path}`, { body, headers: value === undefined ? {} : { 'X-Hub-Signature-256': value } })
    assert.equal((await send(`/hook/${token}`, signature(body))).status, 204)
    assert.equal((await send(`/chat/${token}/`, signature(body))).status, 200)
    for (const value of [undefined, 'sha256=00', signature(`${body} `), signature(body).slice(7)]) {
      const { status, body: said } = await send(`/hook/${token}`, value)
      assert.deepEqual([status, said.code], [401, 'unauthenticated'])
      assert.ok(!String(said.detail).includes(secret))
    }
    assert.equal((await s.messages(jid)).length, 2)
  },

  'a GitHub redelivery is recognized by its id, and the event is stored': async (s) => {
    const secret = 'a secret of theirs'
    const { token, jid } = await s.cli.call(routeTokensResource.verbs.issue_operator_hook, {
      target_folder: 'main',
      source_label: 'github',
      ...fresh(),
      verify: 'github',
      verify_secret: secret,
    })
    const send = async (body: string, headers: Record<string, string>): Promise<void> => {
      const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
      const init = { body, headers: { 'X-Hub-Signature-256': signature, ...headers } }
      assert.equal((await s.to(`POST /hook/${token}`, init)).status, 204)
    }
    const delivered = { 'X-GitHub-Delivery': '72d3162e', 'X-GitHub-Event': 'pull_request' }
    for (const body of ['{"a":1}', '{"a":1}', '{"a":2}']) await send(body, delivered)
    await send('{"a":1}', { ...delivered, 'X-GitHub-Delivery': '72d3162f', 'X-GitHub-Event': 'x'.repeat(64) })
    await send('{"a":1}', { 'X-GitHub-Event': 'x'.repeat(65) })
    await send('{"a":1}', { 'X-GitHub-Event': '"><' })
    assert.deepEqual(
      (await s.messages(jid)).map(({ content, event }) => [Buffer.from(content).toString(), event]),
      [
        ['{"a":1}', 'pull_request'],
        ['{"a":2}', 'pull_request'],
        ['{"a":1}', 'x'.repeat(64)],
        ['{"a":1}', undefined],
        ['{"a":1}', undefined],
      ],
    )
    // Without a verified signature GitHub's headers are ignored.
    const open = await s.mintHook(fresh())
    for (let time = 0; time < 2; time++)
      assert.equal((await s.to(`POST ${open.hook}`, { body: 'x', headers: delivered })).status, 204)
    assert.deepEqual(
      (await s.messages(open.jid)).map(({ event }) => event),
      [undefined, undefined],
    )
  },

  'a verifying link accepts signatures of the standardwebhooks package, within five minutes': async (s) => {
    const secret = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`
    const { token, jid } = await s.cli.call(routeTokensResource.verbs.issue_operator_hook, {
      target_folder: 'main',
      source_label: 'svix',
      ...fresh(),
      verify: 'standard',
      verify_secret: secret,
    })
    const body = '{"type":"invoice.paid","text":"ä"}'
    const signed = (id: string, at: number) => ({
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at / 1000)),
      'webhook-signature': new Webhook(secret).sign(id, new Date(at), body),
    })
    const now = s.clock.now()
    assert.equal((await s.to(`POST /hook/${token}`, { body, headers: signed('m1', now) })).status, 204)
    // A redelivery is the same message.
    assert.equal((await s.to(`POST /hook/${token}`, { body, headers: signed('m1', now + 1000) })).status, 204)
    assert.equal((await s.to(`POST /hook/${token}`, { body, headers: signed('m2', now - 301_000) })).status, 401)
    assert.equal((await s.to(`POST /hook/${token}`, { body: `${body} `, headers: signed('m3', now) })).status, 401)
    assert.equal((await s.messages(jid)).length, 1)
    // The names of Svix. An id that is not signed makes no new message.
    const named = Object.fromEntries(
      Object.entries(signed('m4', now)).map(([name, value]) => [name.replace('webhook', 'svix'), value]),
    )
    const post = (headers: Record<string, string>) => s.to(`POST /hook/${token}`, { body, headers })
    for (const _ of [1, 2]) assert.equal((await post(named)).status, 204)
    assert.equal((await post({ ...named, 'webhook-id': 'm5' })).status, 401)
    assert.equal((await post({ ...signed('m4', now), 'svix-id': 'm5' })).status, 204)
    assert.equal((await s.messages(jid)).length, 2)
  },
})

onEveryEngine('settings of links', (engine) => {
  test('limits come from the settings, and 0 means no limit', async (t) => {
    const settings = { TOKEN_BODY_MAX: '10', WEBHOOK_RATE_HOOK: '0', WEBHOOK_RATE_WEB: '2' }
    const s = await openLinkHost(t, { engine, settings })
    const [web, hook] = [await s.mintChat(), await s.mintHook()]
    assert.equal((await s.to(`POST ${hook.hook}`, { body: '0123456789' })).status, 204)
    assert.equal((await s.to(`POST ${hook.hook}`, { body: '0123456789a' })).status, 413)
    const many = await Promise.all(Array.from({ length: 700 }, () => s.to(`POST ${hook.hook}`)))
    assert.ok(many.every(({ status }) => status === 204))
    const statuses = [1, 2, 3].map(() => s.to(`POST ${web.hook}`))
    assert.deepEqual((await Promise.all(statuses)).map(({ status }) => status).sort(), [204, 204, 429])
    // Exactly 30 s to the next one.
    assert.equal((await s.to(`POST ${web.hook}`)).headers.get('retry-after'), '30')
  })
})

onEveryEngine('statistics', (engine) => {
  test('accepted and refused posts are counted in memory and written at shutdown', async (t) => {
    const s = await openLinkHost(t, { engine })
    const secret = 'x'.repeat(20)
    const { token } = await s.cli.call(routeTokensResource.verbs.issue_operator_hook, {
      target_folder: 'main',
      source_label: 'ci',
      verify: 'hmac:X-Signature',
      verify_secret: secret,
    })
    const good = { 'X-Signature': createHmac('sha256', secret).update('x').digest('hex') }
    const send = (body: string, headers: Record<string, string> = {}) => s.to(`POST /hook/${token}`, { body, headers })
    assert.equal((await send('x', good)).status, 204)
    assert.equal((await send('x', { ...good, 'Idempotency-Key': 'a b' })).status, 400)
    assert.equal((await send('x')).status, 401)
    assert.equal((await send('x', { 'X-Signature': '00' })).status, 401)
    assert.equal((await send('x'.repeat(MIB + 1))).status, 413)
    await s.to(`GET /chat/${token}/`)
    const listed = async () => (await s.cli.call(routeTokensResource.verbs.list_of, { folder: 'main' })).tokens[0]
    const before = await listed()
    assert.deepEqual([before?.accepted, before?.refused, before?.last_used_at], [0, {}, undefined])
    let after: typeof before
    const { close } = s.host
    s.host.close = async () => {
      after ??= await listed()
      await close()
    }
    await s.close()
    assert.deepEqual([after?.accepted, after?.refused], [1, { invalid: 1, signature: 2, too_large: 1 }])
    assert.equal(after?.last_used_at, new Date(s.clock.now()).toISOString())
    assert.ok(!JSON.stringify(after).includes(secret))
  })
})

test('an acknowledged message is visible to every reader at once', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintHook()
  for (let time = 1; time <= 20; time++) {
    await s.to(`POST ${link.hook}`)
    assert.equal(await s.host.engine.read((tx) => messages.count(tx)), time)
  }
})
