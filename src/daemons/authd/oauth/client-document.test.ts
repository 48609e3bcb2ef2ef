// Fetching metadata documents of clients: what is accepted, how it is cached, and which addresses are never asked.
import assert from 'node:assert/strict'
import type { RequestListener } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { fakeClock } from '../../../../test/support/clock.ts'
import { type DocumentServer, openDocumentServer } from '../../../../test/support/document-server.ts'
import { isRefusal } from '../../../../test/support/host.ts'
import { needs } from '../../../../test/support/needs.ts'
import { ClientDocuments, isDocumentUrl, isPublicAddress, PUBLIC_DIALER } from './client-document.ts'

const JSON_TYPE = { 'Content-Type': 'application/json' }
const REDIRECTS = ['http://localhost/callback', 'http://127.0.0.1/callback']

/** A valid document for the URL of the request. */
function documentOf(origin: string, path: string, changes: object = {}): string {
  return JSON.stringify({ client_id: `${origin}${path}`, client_name: 'An app', redirect_uris: REDIRECTS, ...changes })
}

interface Opened extends DocumentServer {
  readonly clock: ReturnType<typeof fakeClock>
  readonly documents: ClientDocuments
}

async function opened(
  t: TestContext,
  answer: (origin: string, ...args: Parameters<RequestListener>) => void,
): Promise<Opened> {
  let origin = ''
  const server = await openDocumentServer(t, (...args) => answer(origin, ...args))
  origin = server.origin
  const clock = fakeClock()
  return { ...server, clock, documents: new ClientDocuments(clock, server.dialer) }
}

suite('a metadata document', needs('openssl'), () => {
  test('describes its client, without cookies and with one lookup', async (t) => {
    const s = await opened(t, (origin, request, response) => {
      assert.deepEqual(
        [request.method, request.headers.cookie, request.headers.authorization],
        ['GET', undefined, undefined],
      )
      assert.equal(request.headers.host, new URL(origin).host)
      response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8' })
      response.end(documentOf(origin, request.url ?? '', { logo_uri: `${origin}/logo`, jwks_uri: `${origin}/jwks` }))
    })
    assert.deepEqual(await s.documents.find(`${s.origin}/client.json`), {
      client_id: `${s.origin}/client.json`,
      client_name: 'An app',
      redirect_uris: REDIRECTS,
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
    })
    assert.deepEqual([s.requests, s.lookups], [['/client.json'], ['app.example']])
  })

  const WRONG: Record<string, [RegExp, (origin: string, ...args: Parameters<RequestListener>) => void]> = {
    'another status': [
      /status 404/,
      (origin, _, response) => response.writeHead(404, JSON_TYPE).end(documentOf(origin, '/c')),
    ],
    'status 203': [
      /status 203/,
      (origin, _, response) => response.writeHead(203, JSON_TYPE).end(documentOf(origin, '/c')),
    ],
    'a redirect': [
      /status 302/,
      (origin, _, response) => response.writeHead(302, { Location: `${origin}/d`, ...JSON_TYPE }).end(),
    ],
    'another type': [
      /not JSON/,
      (origin, _, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end(documentOf(origin, '/c')),
    ],
    'no type': [/not JSON/, (origin, _, response) => response.writeHead(200).end(documentOf(origin, '/c'))],
    compression: [
      /is compressed/,
      (_origin, _, response) =>
        response.writeHead(200, { ...JSON_TYPE, 'Content-Encoding': 'gzip' }).end(gzipSync(Buffer.alloc(10_000_000))),
    ],
    'more than 10 KiB': [
      /larger than 10240/,
      (origin, _, response) =>
        response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c', { x: 'x'.repeat(10_240) })),
    ],
    'an endless body': [
      /larger than 10240/,
      (_origin, _, response) => {
        response.writeHead(200, JSON_TYPE)
        const more = (): void => void (response.destroyed || response.write('x'.repeat(1000), () => setImmediate(more)))
        more()
      },
    ],
    'text that is not JSON': [/./, (_origin, _, response) => response.writeHead(200, JSON_TYPE).end('<html>')],
    'another client_id': [
      /another client_id/,
      (origin, _, response) => response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/C')),
    ],
    'no name': [
      /lacks/,
      (origin, _, response) =>
        response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c', { client_name: undefined })),
    ],
    'no redirects': [
      /lacks/,
      (origin, _, response) => response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c', { redirect_uris: [] })),
    ],
    'no usable redirect': [
      /no usable redirect/,
      (origin, _, response) =>
        response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c', { redirect_uris: ['http://evil.example/'] })),
    ],
    'a closed connection': [/could not be fetched$/, (_origin, request) => request.socket.destroy()],
  }
  for (const [what, [fault, answer]] of Object.entries(WRONG)) {
    test(`with ${what} is refused, and not asked for again within a minute`, async (t) => {
      const s = await opened(t, answer)
      await assert.rejects(s.documents.find(`${s.origin}/c`), isRefusal('invalid', fault))
      s.clock.advance(59_999)
      await assert.rejects(s.documents.find(`${s.origin}/c`), isRefusal('invalid'))
      assert.deepEqual(s.requests, ['/c'])
      s.clock.advance(1)
      await assert.rejects(s.documents.find(`${s.origin}/c`), isRefusal('invalid'))
      assert.equal(s.requests.length, 2)
    })
  }

  test('of exactly 10 KiB is read', async (t) => {
    const s = await opened(t, (origin, _, response) => {
      const length = documentOf(origin, '/c', { x: '' }).length
      response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c', { x: 'x'.repeat(10_240 - length) }))
    })
    assert.equal((await s.documents.find(`${s.origin}/c`)).client_name, 'An app')
  })

  const CACHING: Record<string, [header: string | undefined, ms: number]> = {
    'no header is kept for 5 minutes': [undefined, 300_000],
    'max-age is kept so long': ['public, max-age=7200', 7_200_000],
    'a short max-age is kept for a minute': ['max-age=1', 60_000],
    'no-store is kept for a minute': ['no-store', 60_000],
    'a long max-age is kept for a day': ['max-age=31536000', 86_400_000],
  }
  for (const [what, [header, ms]] of Object.entries(CACHING)) {
    test(`with ${what}`, async (t) => {
      const s = await opened(t, (origin, _, response) => {
        const headers = { ...JSON_TYPE, ...(header === undefined ? {} : { 'Cache-Control': header }) }
        response.writeHead(200, headers).end(documentOf(origin, '/c'))
      })
      await Promise.all(Array.from({ length: 5 }, () => s.documents.find(`${s.origin}/c`)))
      s.clock.advance(ms - 1)
      await s.documents.find(`${s.origin}/c`)
      assert.equal(s.requests.length, 1)
      s.clock.advance(1)
      await s.documents.find(`${s.origin}/c`)
      assert.equal(s.requests.length, 2)
    })
  }

  test('behind a name with any address that is not public is not asked for', async (t) => {
    const s = await opened(t, (origin, _, response) => response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c')))
    const resolving = (...addresses: string[]) =>
      new ClientDocuments(s.clock, { ...s.dialer, isAllowed: isPublicAddress, resolve: async () => addresses })
    for (const addresses of [['127.0.0.1'], ['93.184.216.34', '10.0.0.1'], ['::1'], []]) {
      const found = resolving(...addresses).find(`${s.origin}/c`)
      await assert.rejects(found, isRefusal('invalid', /^the client's metadata document could not be fetched$/))
    }
    const { port } = new URL(s.origin)
    for (const host of ['127.0.0.1', '[::1]', '169.254.169.254', '[::ffff:7f00:1]'])
      await assert.rejects(resolving('93.184.216.34').find(`https://${host}:${port}/c`), isRefusal('invalid'))
    assert.deepEqual(s.requests, [])
  })

  test('with a certificate of another authority is not read', async (t) => {
    const s = await opened(t, (origin, _, response) => response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c')))
    const { ca, ...dialer } = s.dialer
    assert.ok(ca)
    await assert.rejects(new ClientDocuments(s.clock, dialer).find(`${s.origin}/c`), isRefusal('invalid'))
    assert.deepEqual(s.requests, [])
  })

  test('is given up after 5 seconds, also while its name is looked up', async (t) => {
    const s = await opened(t, (_origin, request, response) => {
      if (request.url === '/slow') response.writeHead(200, JSON_TYPE).write('{')
    })
    assert.equal(PUBLIC_DIALER.timeoutMs, 5000)
    const impatient = new ClientDocuments(s.clock, { ...s.dialer, timeoutMs: 50 })
    const lost = new ClientDocuments(s.clock, { ...s.dialer, timeoutMs: 50, resolve: () => new Promise(() => {}) })
    for (const found of [
      impatient.find(`${s.origin}/silent`),
      impatient.find(`${s.origin}/slow`),
      lost.find(`${s.origin}/c`),
    ])
      await assert.rejects(found, isRefusal('invalid', 'could not be fetched'))
  })

  test('that cannot be fetched is not offered for an hour, or until one is fetched', async (t) => {
    const s = await opened(t, (origin, request, response) =>
      request.url === '/c'
        ? response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c'))
        : response.writeHead(404).end(),
    )
    assert.equal(s.documents.areOffered, true)
    await assert.rejects(s.documents.find(`${s.origin}/missing`), isRefusal('invalid', 'status 404'))
    assert.equal(s.documents.areOffered, true, 'its server was reached')
    const { hostname } = new URL(s.origin)
    const fail = (): Promise<void> =>
      assert.rejects(s.documents.find(`https://${hostname}:1/c`), isRefusal('invalid', 'could not be fetched'))
    await fail()
    assert.equal(s.documents.areOffered, false)
    await s.documents.find(`${s.origin}/c`)
    assert.equal(s.documents.areOffered, true)
    s.clock.advance(60_000)
    await fail()
    s.clock.advance(3_600_000 - 1)
    assert.equal(s.documents.areOffered, false)
    s.clock.advance(1)
    assert.equal(s.documents.areOffered, true)
  })

  test('is neither offered nor fetched while documents are switched off', async (t) => {
    const s = await opened(t, (origin, _, response) => response.writeHead(200, JSON_TYPE).end(documentOf(origin, '/c')))
    let isOn = false
    const documents = new ClientDocuments(s.clock, s.dialer, () => isOn)
    assert.equal(documents.areOffered, false)
    await assert.rejects(documents.find(`${s.origin}/c`), isRefusal('invalid', /only after they register$/))
    assert.deepEqual(s.requests, [])
    isOn = true
    assert.equal(documents.areOffered, true)
    await documents.find(`${s.origin}/c`)
  })

  test('200 are cached at most', async (t) => {
    const s = await opened(t, (origin, request, response) =>
      response.writeHead(200, JSON_TYPE).end(documentOf(origin, request.url ?? '')),
    )
    for (let index = 0; index <= 200; index++) await s.documents.find(`${s.origin}/${index}`)
    await s.documents.find(`${s.origin}/1`)
    assert.equal(s.requests.length, 201)
    await s.documents.find(`${s.origin}/0`)
    assert.equal(s.requests.length, 202)
  })
})

test('only public addresses are asked', () => {
  const refused = [
    ...['127.0.0.1', '10.1.2.3', '172.16.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1', '0.0.0.0', '192.0.2.1'],
    ...['198.51.100.1', '203.0.113.1', '224.0.0.1', '255.255.255.255', '::1', '::', 'fc00::1', 'fe80::1', 'ff02::1'],
    ...[
      '2001:db8::1',
      '2002:808:808::1',
      '64:ff9b::8.8.8.8',
      '64:ff9b:0:0:0:0:808:808',
      '::ffff:10.0.0.1',
      'nonsense',
      '',
    ],
  ]
  for (const address of refused) assert.equal(isPublicAddress(address), false, address)
  for (const address of ['8.8.8.8', '93.184.216.34', '2606:2800:220:1:248:1893:25c8:1946', '2003::1'])
    assert.equal(isPublicAddress(address), true, address)
})

test('a client id that is a URL is https, has a path, and has one spelling', () => {
  for (const id of ['https://app.example/c', 'https://app.example:8443/c.json?x=1', 'https://app.example/a/'])
    assert.equal(isDocumentUrl(id), true, id)
  const refused = [
    ...[
      'https://app.example',
      'https://app.example/',
      'http://app.example/c',
      'https://APP.example/c',
      'https://app.example/c#x',
    ],
    ...[
      'https://u@app.example/c',
      'https://u:p@app.example/c',
      'https://app.example/../c',
      'https://app.example:443/c',
    ],
    ...['https://app.example/a b', 'https://app.example/\u212A', 'https://app.example\\c', 'svc-cli', ''],
    `https://app.example/${'a'.repeat(1005)}`,
  ]
  for (const id of refused) assert.equal(isDocumentUrl(id), false, id)
  assert.equal(isDocumentUrl(`https://app.example/${'a'.repeat(1004)}`), true)
})
