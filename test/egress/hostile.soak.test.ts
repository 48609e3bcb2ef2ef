// Fuzzing by a hostile workload: many ambiguous request heads and TLS hellos. However the proxy reads them, nothing
// reaches a host that is not allowed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { connect as connectTls, createServer as createTlsServer, type TLSSocket, type TlsOptions } from 'node:tls'
import { clientHello } from '../support/client-hello.ts'
import { needs } from '../support/needs.ts'
import { openFileCount } from '../support/open-files.ts'
import { portOf } from '../support/raw-socket.ts'
import { type RepeatableRandom, repeatableRandom } from '../support/repeatable-random.ts'
import { until } from '../support/until.ts'
import {
  ALLOWED,
  connectRequest,
  getRequest,
  IO_MODES,
  type IoMode,
  type Lab,
  type LogLine,
  makeCertificate,
  openLab,
} from './lab.ts'

/** Only for hangs: on a busy machine the request heads alone take five minutes. */
const LONG = { timeout: 15 * 60_000 }
const TLS = { ...LONG, ...needs('openssl') }
/** The address of all names that are not allowed. */
const FORBIDDEN = '127.0.0.66'
const HOME = '127.0.0.1'
const EVIL = 'denied.test'
/** Epoll is faster. */
const HEADS: Record<IoMode, number> = { epoll: 100_000, net: 10_000 }
const HELLOS: Record<IoMode, number> = { epoll: 6000, net: 2000 }
const AT_ONCE = 64
/** No client here is slow on purpose. */
const SHORT_LIMITS = { headMs: 2000, responseMs: 500, keepAliveMs: 500, lingerMs: 500, idleMs: 2000 }

for (const io of IO_MODES) {
  suite(`with ${io}`, () => {
    test(`none of ${HEADS[io]} mutated request heads reaches a host that is not allowed`, LONG, async (t) => {
      const random = repeatableRandom(t)
      const lab = await openLab(t, { io, usesDns: true, limits: SHORT_LIMITS })
      lab.dns.tell(ALLOWED, { addresses: [HOME] })
      lab.dns.tell(`*.${ALLOWED}`, { addresses: [HOME] })
      lab.dns.tell('*', { addresses: [FORBIDDEN] })
      for (const from of SOURCES) await lab.proxy.sources.set({ ip: from, id: from, allowlist: [ALLOWED] })
      const good = await openRecorder(t, HOME)
      const bad = await openRecorder(t, FORBIDDEN, good.port)
      const heads = headsFor(good.port)
      const idleFiles = await countIdleFiles(lab)
      let [tried, accepted] = [0, 0]
      let early = 0
      const kept: LogLine[] = []
      const attack = async (): Promise<void> => {
        for (;;) {
          const count = ++tried
          if (count > HEADS[io]) return
          if (count % 1000 === 0) kept.push(...lab.lines.splice(0).filter(isRelevant))
          if (count === Math.floor(HEADS[io] / 4)) early = process.memoryUsage.rss()
          const answer = await send(lab.port, mutateHead(random, heads), random)
          if (/^HTTP\/1\.1 200 /.test(answer)) accepted++
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, attack))
      assert.equal(bad.connections, 0)
      assert.deepEqual(bad.texts, [])
      assert.match(await lab.ask(getRequest(good.port)), /^HTTP\/1\.1 200 /)
      await until(async () => (await lab.proxy.snapshot()).connections === 0)
      await until(() => openFileCount() <= idleFiles)
      const allLines = (): LogLine[] => [...kept, ...lab.lines]
      await checkLines(allLines, accepted, good)
      checkRequests(good.texts)
      for (const { name } of lab.dns.asked) assert.ok(isAllowed(name), name)
      // Otherwise the mutations were too strong or too weak.
      assert.ok(accepted > HEADS[io] / 100 && accepted < HEADS[io] / 2, `${accepted} were accepted`)
      const grownMiB = (process.memoryUsage.rss() - early) / 1_048_576
      t.diagnostic(`${accepted} accepted, ${grownMiB.toFixed(0)} MiB grown`)
      assert.ok(grownMiB < 100, `${grownMiB} MiB`)
    })

    test('no server reads a name that is not allowed from thousands of mutated hellos', TLS, async (t) => {
      const random = repeatableRandom(t)
      const lab = await openLab(t, { io, limits: SHORT_LIMITS })
      const seen: string[] = []
      // It accepts none of the first key shares, so that it requests a second hello from every client.
      const tlsOptions = { ...makeCertificate(t), ecdhCurve: 'P-384', minVersion: 'TLSv1.3' } as const
      const origin = await openTlsServer(t, tlsOptions, (name) => seen.push(name))
      const names = [ALLOWED, `www.${ALLOWED}`, EVIL, `x${ALLOWED}`, `${ALLOWED}x`]
      const hellos = [
        ...(await Promise.all(names.map(captureHello))),
        ...names.map((sni) => clientHello({ sni, keyShare: 'x25519' })),
        ...names.map((sni) => clientHello({ sni, recordBytes: 40 })),
      ]
      let tried = 0
      const attack = async (): Promise<void> => {
        while (++tried <= HELLOS[io]) await sendHello(lab.port, origin, mutateHello(random, hellos), random)
      }
      await Promise.all(Array.from({ length: 32 }, attack))
      for (const name of seen) assert.ok(isAllowed(name.toLowerCase()), name)
      // Otherwise the server has read too few of them.
      assert.ok(seen.length > HELLOS[io] / 50, `${seen.length} were read`)
      await until(async () => (await lab.proxy.snapshot()).connections === 0)
      const denied = lab.lines.filter(({ reason }) => reason === 'sni-denied' || reason === 'sni-unreadable')
      assert.ok(denied.length > HELLOS[io] / 50, `${denied.length} were denied`)
    })
  })
}

/** Many sources, because the machine would run out of ports with one. */
const SOURCES = Array.from({ length: 60 }, (_, at) => `127.0.0.${at + 1}`)

interface Recorder {
  readonly port: number
  connections: number
  /** The bytes of each connection that sent any. */
  readonly texts: string[]
}

/** Responds to all data and records it. */
async function openRecorder(t: TestContext, host: string, port = 0): Promise<Recorder> {
  const texts: string[] = []
  const recorder = { port, connections: 0, texts }
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    recorder.connections++
    sockets.add(socket.on('error', () => {}))
    let text = ''
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1')
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
    socket.on('close', () => {
      sockets.delete(socket)
      if (text !== '') texts.push(text)
    })
  })
  server.listen(port, host)
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  recorder.port = portOf(server)
  return recorder
}

/** Requests as clients send them, to allowed and other hosts. */
function headsFor(port: number): readonly string[] {
  const hosts = [ALLOWED, `www.${ALLOWED}`, EVIL, `${ALLOWED}.${EVIL}`, FORBIDDEN, `[::ffff:${FORBIDDEN}]`, 'localhost']
  const fields = ['', 'Connection: close\r\n', 'Connection: keep-alive\r\nUser-Agent: x\r\nAccept: */*\r\n']
  const bodies = ['', 'Content-Length: 5\r\n\r\nhello', 'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n']
  const heads: string[] = []
  for (const host of hosts) {
    const at = `${host}:${port}`
    for (const field of fields) {
      heads.push(`CONNECT ${at} HTTP/1.1\r\nHost: ${at}\r\n${field}\r\n`)
      heads.push(`CONNECT ${at} HTTP/1.0\r\n${field}\r\nearly`)
      for (const body of bodies)
        heads.push(`POST http://${at}/a?b=c HTTP/1.1\r\nHost: ${at}\r\n${field}${body === '' ? '\r\n' : body}`)
    }
    heads.push(`GET http://${at} HTTP/1.0\r\n\r\n`)
    heads.push(`GET / HTTP/1.1\r\nHost: ${at}\r\n\r\n`)
    heads.push(`GET http://${at}/ws HTTP/1.1\r\nHost: ${at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
  }
  return heads
}

/** Fragments that have bypassed filters elsewhere. */
const WORDS = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\0',
    ' ',
    '\t',
    ':',
    '@',
    '#',
    '?',
    '/',
    '//',
    '\\',
    '%',
    '%00',
    '%0d%0a',
    '.',
    '..',
    '[',
    ']',
  ],
  ...[
    EVIL,
    ALLOWED,
    FORBIDDEN,
    '2130706498',
    '0x7f000042',
    '127.66',
    '0177.0.0.102',
    '::1',
    '::ffff:7f00:42',
    '\u212a',
  ],
  ...[`${ALLOWED}@${EVIL}`, `${EVIL}#.${ALLOWED}`, `${EVIL}%00.${ALLOWED}`, `${EVIL}\0.${ALLOWED}`, `.${ALLOWED}`],
  ...[`Host: ${EVIL}\r\n`, `Host: ${ALLOWED}\r\n`, 'Content-Length: 5\r\n', 'Content-Length: 0\r\n', ' \r\n'],
  ...[
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding: identity\r\n',
    'Connection: host\r\n',
    'Expect: 100-continue\r\n',
  ],
  ...[
    'http://',
    'https://',
    'ftp://',
    'HTTP/1.1',
    'HTTP/2.0',
    ' HTTP/0.9',
    'CONNECT ',
    'GET ',
    'X: y\r\n',
    '0\r\n\r\n',
    'ffffffffffffffff',
  ],
] as const

/** One or two of the heads, changed in a few places. */
function mutateHead(random: RepeatableRandom, heads: readonly string[]): Buffer {
  const pick = <T>(all: readonly T[]): T => all[random.below(all.length)] as T
  let text = pick(heads)
  if (random.below(4) === 0) text += pick(heads)
  for (let left = random.below(4); left > 0; left--) {
    const at = random.below(Math.min(text.length, 120))
    const end = at + random.below(12)
    const act = random.below(6)
    if (act === 0) text = text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + 1)
    else if (act === 1) text = text.slice(0, at) + text.slice(end)
    else if (act === 2) text = text.slice(0, end) + text.slice(at)
    else if (act === 3) text = text.slice(0, at) + pick(WORDS) + text.slice(end)
    else text = text.slice(0, at) + pick(WORDS) + text.slice(at)
  }
  return Buffer.from(text, 'latin1')
}

/** Sends the bytes in one or two pieces, ends or resets the connection, and returns the response. */
async function send(port: number, bytes: Buffer, random: RepeatableRandom): Promise<string> {
  const localAddress = SOURCES[random.below(SOURCES.length)] ?? HOME
  const socket = connect({ port, host: HOME, localAddress, noDelay: true })
  let text = ''
  socket.on('data', (piece: Buffer) => {
    text += piece.toString('latin1')
  })
  const cut = random.below(8) === 0 ? random.below(bytes.length) : 0
  if (cut > 0) {
    socket.write(bytes.subarray(0, cut))
    await new Promise((go) => setImmediate(go))
  }
  if (random.below(16) === 0) socket.write(bytes.subarray(cut), () => socket.resetAndDestroy())
  else socket.end(bytes.subarray(cut))
  await new Promise((done) => socket.on('close', done).on('error', () => {}))
  return text
}

/** Number of open files without connections, plus a margin. */
async function countIdleFiles({ proxy, ask, port }: Lab): Promise<number> {
  await ask(getRequest(port, EVIL))
  await until(async () => (await proxy.snapshot()).connections === 0)
  return openFileCount() + 8
}

function isAllowed(name: unknown): boolean {
  return name === ALLOWED || `${name}`.endsWith(`.${ALLOWED}`)
}

/** All lines but plain refusals, which are too many to keep. */
function isRelevant({ verdict, address, bytes_up, msg }: LogLine): boolean {
  return verdict === 'allow' || address !== undefined || Number(bytes_up) > 0 || msg !== undefined
}

/** Checks that no line allows another host, and that every accepted or forwarded request has a line. */
async function checkLines(allLines: () => readonly LogLine[], accepted: number, { texts }: Recorder): Promise<void> {
  await until(
    () => allLines().filter(({ verdict, status }) => verdict === 'allow' && status === 200).length >= accepted,
  )
  await until(() => allLines().filter(({ bytes_up }) => Number(bytes_up) > 0).length >= texts.length)
  const lines = allLines()
  for (const line of lines.filter(({ verdict, address }) => verdict === 'allow' || address !== undefined)) {
    assert.ok(isAllowed(line.host), JSON.stringify(line))
    assert.ok(line.address === undefined || line.address === HOME, JSON.stringify(line))
  }
  assert.deepEqual(
    lines.filter(({ msg }) => `${msg}`.includes('fault')),
    [],
  )
}

/** Checks that a request rewritten by the proxy has exactly one Host, the checked one. */
function checkRequests(texts: readonly string[]): void {
  for (const text of texts.filter((all) => all.includes('\r\nVia: 1.'))) {
    const head = text.slice(0, text.indexOf('\r\n\r\n'))
    const hosts = head.split('\r\n').filter((line) => /^host[ \t]*:/i.test(line))
    assert.equal(hosts.length, 1, head)
    assert.match(hosts[0] ?? '', /^host: (?:[a-z0-9_.-]+\.)?allowed\.test(?::\d+)?$/i, head)
    assert.match(head, /^[^ \r\n]+ (?:\/[^ \r\n]*|\*) HTTP\/1\.1\r\n/)
  }
}

/** Reports each name that OpenSSL reads from a hello. */
async function openTlsServer(t: TestContext, tlsOptions: TlsOptions, onName: (name: string) => void): Promise<number> {
  const report = (name: unknown): void => {
    if (typeof name === 'string' && name !== '') onName(name)
  }
  const sockets = new Set<Socket>()
  const options: TlsOptions = {
    ...tlsOptions,
    SNICallback: (name, go) => {
      report(name)
      go(null)
    },
  }
  const server = createTlsServer(options, (socket) => {
    report(socket.servername)
    socket.on('error', () => {}).end()
  })
  server.on('tlsClientError', (_, socket: TLSSocket) => report(socket.servername))
  server.on('connection', (socket: Socket) => {
    sockets.add(socket.on('error', () => {}))
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, HOME)
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return portOf(server)
}

/** The hello of a real client. */
async function captureHello(servername: string): Promise<Buffer> {
  const server = createServer()
  server.listen(0, HOME)
  await once(server, 'listening')
  const socket = connectTls({ port: portOf(server), host: HOME, servername, ecdhCurve: 'X25519:P-384' })
  socket.on('error', () => {})
  const [client]: Socket[] = await once(server, 'connection')
  const [hello]: Buffer[] = client ? await once(client, 'data') : []
  socket.destroy()
  client?.destroy()
  server.close()
  return hello ?? Buffer.alloc(0)
}

/** Valid records between two hellos: none, one for old middleboxes, or data that a server skips. */
const BETWEEN = [Buffer.alloc(0), Buffer.of(20, 3, 3, 0, 1, 1), Buffer.of(23, 3, 3, 0, 4, 1, 2, 3, 4)] as const

function mutateHello(random: RepeatableRandom, hellos: readonly Buffer[]): Buffer {
  const one = (): Buffer => {
    let bytes = hellos[random.below(hellos.length)] ?? Buffer.alloc(0)
    for (let left = Math.max(0, random.below(5) - 2); left > 0; left--) {
      const at = random.below(Math.min(bytes.length, 260))
      const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)]
      const act = random.below(3)
      if (act === 0) bytes = Buffer.concat([head, Buffer.of(random.below(256)), tail.subarray(1)])
      else if (act === 1) bytes = Buffer.concat([head, Buffer.of(random.below(256)), tail])
      else bytes = Buffer.concat([head, tail.subarray(1 + random.below(4))])
    }
    return bytes
  }
  if (random.below(2) === 0) return one()
  return Buffer.concat([one(), BETWEEN[random.below(BETWEEN.length)] ?? BETWEEN[0], one()])
}

/** Sends the bytes into a tunnel, in one or two pieces, and ends it. */
async function sendHello(proxy: number, port: number, bytes: Buffer, random: RepeatableRandom): Promise<void> {
  const socket = connect({ port: proxy, host: HOME, noDelay: true }).on('error', () => {})
  const closed = new Promise((done) => socket.on('close', done))
  socket.write(connectRequest(port))
  await Promise.race([once(socket, 'data'), closed])
  const cut = random.below(bytes.length)
  for (const piece of random.below(3) === 0 ? [bytes.subarray(0, cut), bytes.subarray(cut)] : [bytes]) {
    if (!socket.destroyed) socket.write(piece)
    await new Promise((go) => setImmediate(go))
  }
  socket.end()
  await closed
}
