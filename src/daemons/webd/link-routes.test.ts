import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { routeByHand } from '../../../test/support/conversation-host.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { json, openLinkHost, openStream } from '../../../test/support/link-host.ts'
import { sendRaw, statusOf } from '../../../test/support/served-host.ts'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import { createTokenProof, hashToken } from '../../core/links/link-token.ts'
import { messages } from '../../core/messages/messages.ts'
import { Problem } from '../../lib/http/http.ts'
import { Refusal } from '../../lib/refusal.ts'

const UNKNOWN = 'A'.repeat(43)
const RANDOM_TURN = '01890000-0000-7000-8000-000000000000'
const HTML = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

test('the URLs of a link', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat()
  const turn = await s.speak(link, 'why?')
  const views = {
    '': 'text/html',
    'widget.js': 'text/javascript',
    'chat.js': 'text/javascript',
    'highlight.js': 'text/javascript',
    'sw.js': 'text/javascript',
    'manifest.webmanifest': 'application/manifest\\+json',
    'icon.svg': 'image/svg\\+xml',
    'icon-192.png': 'image/png',
    'icon-512.png': 'image/png',
    'icon-maskable.png': 'image/png',
    [turn]: 'application/json',
    events: 'text/event-stream',
  }

  await t.test('HEAD responds with the headers of GET and no body', async () => {
    for (const [rest, type] of Object.entries(views)) {
      const head = await s.to(`HEAD ${link.chat}${rest}`)
      assert.deepEqual([head.status, head.text], [200, ''])
      assert.match(head.headers.get('content-type') ?? '', new RegExp(`^${type}`))
    }
    const stream = await openStream(t, `${s.url('webd')}${link.chat}${turn}/sse`)
    assert.deepEqual([stream.status, stream.headers['content-type']], [200, 'text/event-stream'])
    stream.cut()
  })

  await t.test('the script of the chat is compressed, cached privately and revalidated', async () => {
    const path = `${link.chat}chat.js`
    const ask = async (headers: Record<string, string>) => {
      const asking = request(s.url('webd') + path, { headers })
      asking.end()
      const [answer]: IncomingMessage[] = await once(asking, 'response')
      return { answer: answer ?? assert.fail(), body: answer ? await buffer(answer) : Buffer.alloc(0) }
    }
    const plain = await ask({})
    assert.equal(plain.answer.headers['content-encoding'], undefined)
    const unpack = { br: brotliDecompressSync, gzip: gunzipSync }
    const tags = new Set([plain.answer.headers.etag])
    for (const [coding, unpacked] of Object.entries(unpack)) {
      const { answer, body } = await ask({ 'Accept-Encoding': `deflate, ${coding}` })
      const { etag = '', vary, 'cache-control': kept, 'content-encoding': coded } = answer.headers
      assert.deepEqual([coded, vary, kept], [coding, 'Accept-Encoding', 'private, no-cache'])
      assert.ok(unpacked(body).equals(plain.body))
      assert.ok(body.length < plain.body.length / 3, `${body.length}`)
      tags.add(etag)
      const again = await ask({ 'Accept-Encoding': coding, 'If-None-Match': `"x", ${etag}` })
      assert.deepEqual([again.answer.statusCode, again.body.length], [304, 0])
      assert.deepEqual([again.answer.headers.etag, again.answer.headers['cache-control']], [etag, 'private, no-cache'])
      assert.equal(
        (await ask({ 'If-None-Match': etag })).answer.statusCode,
        200,
        'the cached copy has another encoding',
      )
    }
    assert.equal(tags.size, 3)
    assert.ok(!plain.body.includes(link.token))
    const gone = await s.mintChat({ jid_suffix: 'gone' })
    await s.revoke(gone)
    const revoked = await s.to(`GET ${gone.chat}chat.js`, { headers: { 'If-None-Match': '*' } })
    assert.deepEqual([revoked.status, revoked.headers.get('cache-control')], [401, 'no-store'])
  })

  await t.test('the files of a link allow only reading, and need a link that works', async () => {
    const gone = await s.mintChat({ jid_suffix: 'without-files' })
    await s.revoke(gone)
    for (const file of Object.keys(views).filter((path) => path.includes('.'))) {
      const answer = await s.to(`GET ${link.chat}${file}`)
      assert.deepEqual([answer.status, answer.headers.get('cache-control')], [200, 'private, no-cache'], file)
      assert.ok(!answer.text.includes(link.token))
      assert.equal((await s.to(`GET ${gone.chat}${file}`)).status, 401, file)
      const post = await s.to(`POST ${link.chat}${file}`)
      assert.deepEqual([post.status, post.headers.get('allow')], [405, 'GET, HEAD, OPTIONS'], file)
      assert.equal((await s.to(`GET ${link.chat}${file}/x`)).status, 404, file)
    }
  })

  await t.test('GET, HEAD and OPTIONS store nothing', async () => {
    const before = await s.host.engine.read((tx) => messages.count(tx))
    const paths = [link.chat, `${link.chat}widget.js`, `${link.chat}${turn}`, link.hook, link.chat.slice(0, -1)]
    for (const path of paths) for (const method of ['GET', 'HEAD', 'OPTIONS']) await s.to(`${method} ${path}`)
    assert.equal(await s.host.engine.read((tx) => messages.count(tx)), before)
    assert.equal((await s.rounds()).length, 1)
  })

  await t.test(
    'preflights succeed for every URL, are cacheable for a day, and allow the widget’s headers',
    async () => {
      const asks = { Origin: 'https://shop.example', 'Access-Control-Request-Method': 'POST' }
      const allowed = {
        [link.chat]: 'GET, HEAD, POST, OPTIONS',
        [link.chat.slice(0, -1)]: 'GET, HEAD, POST, OPTIONS',
        [link.hook]: 'POST, OPTIONS',
        [`${link.chat}${turn}`]: 'GET, HEAD, OPTIONS',
        [`${link.chat}${turn}/sse`]: 'GET, HEAD, OPTIONS',
        [`${link.chat}${turn}/stop`]: 'POST, OPTIONS',
        [`${link.chat}events`]: 'GET, HEAD, OPTIONS',
        // A preflight does not check the token.
        [`/chat/${UNKNOWN}/`]: 'GET, HEAD, POST, OPTIONS',
      }
      for (const [path, methods] of Object.entries(allowed)) {
        const { status, headers, text } = await s.to(`OPTIONS ${path}`, { headers: asks })
        assert.deepEqual([status, text], [204, ''], path)
        assert.equal(headers.get('access-control-allow-origin'), '*')
        assert.equal(headers.get('access-control-allow-methods'), methods)
        assert.equal(headers.get('access-control-max-age'), '86400')
        assert.equal(headers.get('access-control-allow-credentials'), null)
        const names = (headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ')
        for (const name of [
          'last-event-id',
          'content-type',
          'accept',
          'idempotency-key',
          'webhook-id',
          'webhook-signature',
          'svix-id',
          'svix-signature',
        ])
          assert.ok(names.includes(name), name)
      }
    },
  )

  await t.test('pages of other sites may read every response, without credentials', async () => {
    const asks = [
      `GET ${link.chat}${turn}`,
      `POST ${link.chat}`,
      `GET /chat/${UNKNOWN}/`,
      `PUT ${link.hook}`,
      `POST ${link.hook}`,
    ]
    for (const ask of asks) {
      const { headers } = await s.to(ask, { headers: { Origin: 'https://shop.example' } })
      assert.equal(headers.get('access-control-allow-origin'), '*', ask)
      assert.equal(headers.get('access-control-allow-credentials'), null)
    }
    const refusal = await s.to(`GET /chat/${UNKNOWN}/`)
    assert.match(refusal.headers.get('access-control-expose-headers') ?? '', /Retry-After/)
  })

  await t.test('an unsupported method is 405 with Allow, or 401 when the token is bad', async () => {
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH']) {
      const { status, headers } = await s.to(`${method} ${link.hook}`)
      assert.deepEqual([status, headers.get('allow')], [405, 'POST, OPTIONS'], method)
      assert.equal((await s.to(`${method} /hook/${UNKNOWN}`)).status, 401)
    }
    assert.equal((await s.to(`DELETE ${link.chat}`)).headers.get('allow'), 'GET, HEAD, POST, OPTIONS')
    assert.equal((await s.to(`POST ${link.chat}${turn}`, json({ content: 'x' }))).status, 405)
    assert.equal((await s.to(`POST /chat/${UNKNOWN}/${turn}`)).status, 401)
    const trace = await sendRaw(s.url('webd'), `TRACE ${link.hook} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    assert.equal(statusOf(trace), 405)
    const tunnel = await sendRaw(s.url('webd'), `CONNECT ${link.hook} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    assert.equal(statusOf(tunnel), 400)
  })

  await t.test('a round can be stopped until it ends, by its own link', async () => {
    const [id, other] = [await s.speak(link, 'stop me', 'stop'), await s.mintChat({ jid_suffix: 'elsewhere' })]
    const route = async (id: string): Promise<void> => {
      const { seq = 0 } = (await s.messages(link.jid)).find((message) => message.id === id) ?? {}
      const now = '2026-01-01T00:00:00.000Z'
      await s.host.engine.transaction((tx) => routeByHand(tx, { seq, folder: 'main', topic: 'stop', now }))
    }
    const stop = (path: string, headers = {}) => s.to(`POST ${path}/stop`, { headers })
    // Nothing routes its message here.
    const early = await stop(link.chat + id)
    assert.deepEqual([early.status, early.headers.get('retry-after')], [503, '1'])
    await route(id)
    assert.equal((await stop(other.chat + id)).status, 404)
    assert.equal((await stop(link.chat + RANDOM_TURN)).status, 404)
    assert.equal((await stop(`/chat/${UNKNOWN}/${id}`)).status, 401)
    const get = await s.to(`GET ${link.chat}${id}/stop`)
    assert.deepEqual([get.status, get.headers.get('allow')], [405, 'POST, OPTIONS'])
    assert.equal((await s.to(`GET ${link.chat}${id}`)).body.status, 'pending')
    const stopped = await stop(link.chat + id)
    assert.deepEqual([stopped.status, stopped.body], [202, { turn_id: id }])
    assert.deepEqual((await s.to(`GET ${link.chat}${id}`)).body, {
      ...{ turn_id: id, status: 'failed', error: 'stopped', frames: [], last_seq: 0 },
    })
    const again = await stop(link.chat + id)
    assert.deepEqual([again.status, again.body.detail], [409, 'the answer has ended'])
    assert.equal((await stop(link.chat + id, HTML)).status, 409)
    const next = await s.speak(link, 'and me', 'stop')
    await route(next)
    const form = await stop(link.chat + next, HTML)
    assert.deepEqual([form.status, form.headers.get('location')], [303, `../${next}`])
  })

  await t.test('a chat page without its slash redirects to the same host', async () => {
    const bare = link.chat.slice(0, -1)
    for (const method of ['GET', 'HEAD']) {
      const { status, headers } = await s.to(`${method} ${bare}?topic=a%2Fb`)
      assert.equal(status, 308)
      const to = new URL(headers.get('location') ?? '', `http://here.example${bare}`)
      assert.equal(to.href, `http://here.example${link.chat}?topic=a%2Fb`)
      assert.equal(headers.get('access-control-allow-origin'), '*')
    }
    assert.deepEqual((await s.to(`DELETE ${bare}`)).status, 405)
  })

  await t.test('accepts posts with and without a trailing slash', async () => {
    const bare = link.chat.slice(0, -1)
    const posted = await s.to(`POST ${bare}?x=y`, json({ content: 'x' }))
    assert.deepEqual([posted.status, posted.body.status], [200, 'pending'])
    const form = { body: 'content=x', headers: { ...HTML, 'Content-Type': 'application/x-www-form-urlencoded' } }
    const { status, headers } = await s.to(`POST ${bare}`, form)
    assert.equal(status, 303)
    const page = new URL(headers.get('location') ?? '', `http://here.example${bare}`)
    assert.equal((await s.to(`GET ${page.pathname}`, { headers: HTML })).status, 200)
    assert.equal((await s.to(`POST ${link.hook}/`, { body: 'x' })).status, 204)
    assert.equal((await s.to(`GET ${link.hook}/`)).headers.get('allow'), 'POST, OPTIONS')
    assert.equal((await s.to(`OPTIONS ${link.hook}/`)).status, 204)
    for (const path of [`/chat/${UNKNOWN}`, `/hook/${UNKNOWN}/`]) assert.equal((await s.to(`POST ${path}`)).status, 401)
  })

  await t.test('characters of a token may be percent-encoded, other spellings of a path may not', async () => {
    const hex = (letter: string) => `%${letter.charCodeAt(0).toString(16)}`
    const token = [...link.token].map((letter, at) => (at % 3 === 0 ? hex(letter).toUpperCase() : letter)).join('')
    const proof = createTokenProof(hashToken(link.token), s.host.keyring).replace('~', '%7e').replace('.', '%2E')
    for (const one of [token, [...link.token].map(hex).join(''), proof]) {
      assert.equal((await s.to(`POST /hook/${one}`)).status, 204)
      assert.equal((await s.to(`POST /chat/${one}/`, json({ content: 'x' }))).status, 200)
      assert.equal((await s.to(`GET /chat/${one}/`)).status, 200)
    }
    const twice = link.token.replace(/^./, (letter) => hex(letter).replace('%', '%25'))
    assert.equal((await s.to(`POST /hook/${twice}`)).status, 401)
    assert.ok(!JSON.stringify(s.logged()).includes(token.slice(0, 20)))
  })

  await t.test('a malformed token is never echoed in Location', async () => {
    const hosts = ['\\\\evil.example', 'https:evil.example', 'javascript:alert(1)', '..', '.', '%2f%2fevil.example', '']
    for (const token of hosts) {
      const answer = await sendRaw(s.url('webd'), `GET /chat/${token} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
      assert.ok([400, 401].includes(statusOf(answer)), answer)
      assert.doesNotMatch(answer, /location/i)
    }
  })

  await t.test('a path that is almost a link is not a link', async () => {
    const paths = [`${link.hook}//`, `${link.hook}/extra`, `/hook//${link.token}`, `/hook/../hook/${link.token}`]
    paths.push(`/./hook/${link.token}`, `/hook/%2e%2e/hook/${link.token}`, `/HOOK/${link.token}`, '/hook', '/chat', '/')
    const before = await s.host.engine.read((tx) => messages.count(tx))
    for (const path of paths) {
      const asked = `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx`
      assert.equal(statusOf(await sendRaw(s.url('webd'), asked)), 404, path)
    }
    const found = await s.to(`GET ${link.chat}nothing`)
    assert.deepEqual([found.status, found.body.code], [404, 'not_found'])
    for (const rest of [
      `${turn}/`,
      `${turn}/sse/`,
      `${turn}/status`,
      `${turn.toUpperCase()}`,
      'widget.js/',
      'events/',
      '/',
    ])
      assert.equal((await s.to(`GET ${link.chat}${rest}`)).status, 404, rest)
    assert.equal((await s.to(`GET /chat/${UNKNOWN}/nothing`)).status, 401)
    assert.equal(await s.host.engine.read((tx) => messages.count(tx)), before)
  })

  await t.test('an error is a problem document with a detail, a code and a hint', async () => {
    const { status, headers, body } = await s.to(`GET /chat/${UNKNOWN}/`)
    assert.deepEqual([status, headers.get('content-type')], [401, 'application/problem+json'])
    assert.deepEqual(Problem.parse(body), {
      type: 'urn:problem:unauthenticated',
      title: 'This link does not work',
      status: 401,
      detail: 'there is no such link, or it was revoked',
      code: 'unauthenticated',
      hint: 'ask for a new one where you got it',
    })
    for (const ask of [
      `POST ${link.chat}`,
      `PUT ${link.hook}`,
      `GET ${link.chat}x`,
      `GET ${link.chat}${turn}?after=x`,
    ]) {
      const answer = await s.to(ask, ask.startsWith('POST') ? json({}) : {})
      assert.equal(answer.headers.get('content-type'), 'application/problem+json', ask)
      assert.equal(Problem.parse(answer.body).status, answer.status)
    }
  })

  await t.test('a browser gets an error page with the same detail', async () => {
    for (const [ask, status] of [
      [`GET /chat/${UNKNOWN}/`, 401],
      [`GET ${link.chat}nothing`, 404],
      [`GET ${link.hook}`, 405],
    ] as const) {
      const answer = await s.to(ask, { headers: HTML })
      assert.equal(answer.status, status)
      assert.match(answer.headers.get('content-type') ?? '', /^text\/html/)
      const same = await s.to(ask)
      assert.ok(answer.text.toLowerCase().includes(String(same.body.detail).toLowerCase().slice(0, 20)), answer.text)
      assert.equal(answer.headers.get('allow'), same.headers.get('allow'))
    }
  })

  await t.test('a page sends no referrer, is not cached or indexed, and contains no token', async () => {
    for (const path of [link.chat, `${link.chat}${turn}`, `/chat/${UNKNOWN}/`]) {
      const { headers, text } = await s.to(`GET ${path}`, { headers: HTML })
      assert.equal(headers.get('referrer-policy'), 'no-referrer')
      assert.equal(headers.get('cache-control'), 'no-store')
      assert.equal(headers.get('x-content-type-options'), 'nosniff')
      assert.match(headers.get('x-robots-tag') ?? '', /noindex/)
      assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'/)
      assert.ok(!text.includes(link.token))
    }
    for (const ask of [`GET ${link.chat}${turn}`, `GET /chat/${UNKNOWN}/`]) {
      const { headers } = await s.to(ask)
      assert.deepEqual(
        ['referrer-policy', 'cache-control', 'x-content-type-options'].map((name) => headers.get(name)),
        ['no-referrer', 'no-store', 'nosniff'],
      )
    }
  })

  await t.test('a page loads nothing from other hosts', async () => {
    for (const path of [link.chat, `${link.chat}widget.js`]) {
      const { text } = await s.to(`GET ${path}`)
      const outside = [...text.matchAll(/(?:src|href)\s*=\s*["']?(https?:)?\/\//gi)]
      assert.deepEqual(outside, [])
    }
  })

  await t.test('an anonymous visitor opens the widget, its stream and a round', async () => {
    assert.equal((await s.to(`GET ${link.chat}`)).status, 200)
    const stream = await openStream(t, `${s.url('webd')}${link.chat}events`)
    assert.equal(stream.status, 200)
    stream.cut()
  })

  await t.test(
    'a form post without JavaScript redirects to the page of its round, which refreshes until it ends',
    async () => {
      const form = { ...HTML, 'Content-Type': 'application/x-www-form-urlencoded' }
      const { status, headers } = await s.to(`POST ${link.chat}`, { body: 'content=hi+there', headers: form })
      assert.equal(status, 303)
      const page = new URL(headers.get('location') ?? '', `http://here.example${link.chat}`)
      const answer = await s.to(`GET ${page.pathname}`, { headers: HTML })
      assert.equal(answer.status, 200)
      assert.match(answer.text, /hi there/)
      assert.match(answer.text, /http-equiv="refresh"/)
      const refusal = await s.to(`POST ${link.chat}`, { body: 'content=', headers: form })
      assert.equal(refusal.status, 400)
      assert.match(refusal.headers.get('content-type') ?? '', /^text\/html/)
    },
  )

  await t.test('anything that is not a token is 401', async () => {
    const ends = [
      '',
      'A',
      'A'.repeat(42),
      'A'.repeat(44),
      'A'.repeat(10_000),
      `${'A'.repeat(42)}=`,
      `${'A'.repeat(42)}+`,
    ]
    ends.push(
      `${'A'.repeat(42)}%2F`,
      `${'A'.repeat(40)}%00`,
      '%E0%A4%A',
      `${'A'.repeat(41)}%D9%A1`,
      '~',
      `~${UNKNOWN}.${UNKNOWN}`,
    )
    for (const token of ends) {
      assert.equal((await s.to(`POST /hook/${token}`)).status, 401, token)
      assert.equal((await s.to(`POST /chat/${token}/`, json({ content: 'x' }))).status, 401, token)
    }
  })

  await t.test('a token with another case or a non-canonical last character is 401', async () => {
    const at = [...link.token].findIndex((letter) => /[a-z]/i.test(letter))
    const letter = link.token[at] ?? ''
    const other = letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()
    const wrong = link.token.slice(0, at) + other + link.token.slice(at + 1)
    assert.equal((await s.to(`POST /hook/${wrong}`)).status, 401)
    // The last character has two unused bits.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const last = alphabet[(alphabet.indexOf(link.token.at(-1) ?? '') ^ 1) % 64] ?? ''
    assert.equal((await s.to(`POST /hook/${link.token.slice(0, -1)}${last}`)).status, 401)
  })

  await t.test('an operator’s proof works in place of a token', async () => {
    const proof = createTokenProof(hashToken(link.token), s.host.keyring)
    assert.equal((await s.to(`POST /hook/${proof}`)).status, 204)
    assert.equal((await s.to(`POST /hook/${proof.slice(0, -1)}A`)).status, 401)
    await s.to(`POST /chat/${proof}/`, {
      body: 'content=mine',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    })
    await s.to(`POST ${link.chat}`, {
      body: 'content=mine',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    })
    const stored = await s.host.engine.read((tx) => messages.list(tx, {}, [['seq', 'desc']]))
    // The operator has full reach, a visitor that of the link.
    assert.deepEqual(
      stored.slice(0, 3).map(({ reach }) => reach),
      [undefined, 'all', 'all'],
    )
  })

  await t.test('the proof of a webhook link gives no more than the link does', async () => {
    const hook = await s.mintHook()
    const proof = createTokenProof(hashToken(hook.token), s.host.keyring)
    assert.equal((await s.to(`POST /hook/${proof}`, { body: 'x' })).status, 204)
    assert.equal((await s.to(`POST /chat/${proof}/`, { body: 'x' })).status, 200)
    assert.deepEqual(
      (await s.messages(hook.jid)).map(({ reach }) => reach),
      [undefined, undefined],
    )
  })

  await t.test('an unknown token does not close the connection', async () => {
    const ask = (more: string) => `POST /hook/${UNKNOWN} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n${more}\r\nx`
    const answer = await sendRaw(s.url('webd'), ask('') + ask('') + ask('Connection: close\r\n'))
    assert.equal(answer.match(/HTTP\/1\.1 401/g)?.length, 3)
  })

  await t.test('a round of another chat and an unknown id get the same response', async () => {
    const other = await s.mintChat({ jid_suffix: 'other' })
    const foreign = await s.speak(other, 'mine')
    const bodies = new Set<string>()
    for (const id of [foreign, RANDOM_TURN]) {
      for (const path of [id, `${id}?after=1`, `${id}/sse`]) {
        const { status, text } = await s.to(`GET ${link.chat}${path}`)
        assert.equal(status, 404)
        bodies.add(text)
      }
    }
    assert.equal(bodies.size, 1)
    for (const path of ['..%2f', `%2e%2e/${foreign}`, "'; drop", `${foreign}'`])
      assert.equal((await s.to(`GET ${link.chat}${encodeURI(path)}`)).status, 404)
    // Another token of the same chat sees its rounds.
    const same = await s.mintChat({ jid_suffix: 'other' })
    assert.equal((await s.to(`GET ${same.chat}${foreign}`)).status, 200)
  })
})

onEveryEngine('internal errors', (engine) => {
  test('an unexpected error is 500 with an incident id and no internal detail', async (t) => {
    const s = await openLinkHost(t, { engine })
    const link = await s.mintHook()
    await s.to(`POST ${link.hook}`)
    const { read } = s.host.engine
    Object.assign(s.host.engine, {
      read: async () => {
        throw new Error('select * from secrets failed at /home/x')
      },
    })
    const { status, body, text } = await s.to(`GET ${link.chat}`)
    Object.assign(s.host.engine, { read })
    assert.deepEqual([status, body.code], [500, 'internal'])
    assert.ok(!/select|home|secrets/.test(text))
    const incident = String(body.incident)
    assert.ok(s.logged().some(({ level, request }) => level === 'error' && request === incident))
  })
})

/** Error messages of stores, servers and disks, and random ones. */
const CAUSES = fc.oneof(
  fc.constantFrom(
    'PostgreSQL cannot be reached (ECONNREFUSED)',
    'the disk under /srv/data/svc_demo/store/svc.db is full; nothing was changed',
    'cannot open a stored secret with SECRETS_KEY',
  ),
  fc.string({ minLength: 12, unit: fc.constantFrom(...'abcdefghijklmnopqrstuvwxyz/.:_') }),
)

/** The watch reads a second after a commit, whatever is requested then. */
function isOfLossWatch(): boolean {
  return new Error().stack?.includes('loss-watch.ts') === true
}

test('any store failure is one generic 503 at a link, and the log has the reason', async (t) => {
  const s = await openLinkHost(t, { daemons: ['webd', 'proxyd'] })
  const link = await s.mintChat()
  const turn = await s.speak(link, 'x')
  const { read } = s.host.engine
  t.after(() => Object.assign(s.host.engine, { read }))
  const call = (name: string, args: object) => ({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name, arguments: args },
  })
  const mcp = { Accept: 'application/json, text/event-stream' }
  const asked: readonly (readonly [request: string, init: Omit<RequestInit, 'method'>, reads: number])[] = [
    [`GET ${link.chat}`, {}, 0],
    [`GET ${link.chat}`, { headers: HTML }, 0],
    [`GET ${link.chat}widget.js`, {}, 0],
    [`GET ${link.chat}${turn}`, {}, 0],
    [`GET ${link.chat}${turn}`, { headers: HTML }, 0],
    [`GET ${link.chat}${turn}/sse`, {}, 0],
    [`GET ${link.chat}events`, {}, 0],
    [`PUT ${link.chat}`, {}, 0],
    [`POST /hook/${'A'.repeat(43)}`, {}, 0],
    [
      `POST ${link.chat}`,
      json({ content: 'x' }, { Authorization: `Bearer ${await s.bearer({ sub: 'github:1' })}` }),
      0,
    ],
    [`POST ${link.chat}mcp`, json(call('get_history', {}), mcp), 0],
    [`POST ${link.chat}mcp`, json(call('get_history', {}), mcp), 1],
  ]
  await fc.assert(
    fc.asyncProperty(CAUSES, async (cause) => {
      const logged = () => s.logged().filter((line) => JSON.stringify(line).includes(cause)).length
      let lines = logged()
      for (const [request, init, reads] of asked) {
        const [method = '', path = ''] = request.split(' ')
        for (const at of [s.url('webd'), s.url()]) {
          let left = reads
          Object.assign(s.host.engine, {
            read: (...given: Parameters<typeof read>) =>
              isOfLossWatch() || left-- > 0
                ? read.apply(s.host.engine, given)
                : Promise.reject(new Refusal('unavailable', cause, `check ${cause}`)),
          })
          const answer = await fetch(at + path, { ...init, method, redirect: 'manual' })
          const text = await answer.text()
          Object.assign(s.host.engine, { read })
          assert.ok(!text.includes(cause), `${request} says ${text}`)
          assert.match(text, /the service is not available at the moment/i, request)
          assert.equal(answer.status, reads === 0 ? 503 : 200, request)
          // The log is buffered.
          lines++
          await until(() => logged() === lines)
        }
      }
    }),
    { numRuns: 5 },
  )
})

test('proxyd routes links without rows in proxyd_routes', async (t) => {
  const s = await openLinkHost(t, { daemons: ['proxyd', 'routd', 'webd'] })
  await s.host.engine.transaction((tx) => run(tx, 'delete from proxyd_routes'))
  const link = await s.mintHook()
  const answer = await fetch(s.url() + link.hook, { method: 'POST', body: 'x', redirect: 'manual' })
  assert.equal(answer.status, 204)
  const page = await fetch(s.url() + link.chat, { headers: HTML, redirect: 'manual' })
  assert.equal(page.status, 200)
  assert.equal((await s.messages(link.jid)).length, 1)
})
