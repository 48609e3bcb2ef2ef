import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { suite, test } from 'node:test'
import { connect } from 'node:tls'
import {
  clientHello,
  extension,
  type HelloOptions,
  helloMessage,
  record,
  serverNameExtension,
} from '../../../test/support/client-hello.ts'
import { needs } from '../../../test/support/needs.ts'
import { ClientHelloReader } from './client-hello.ts'
import type { ClientHelloResult } from './client-hello-message.ts'

const NAME = 'example.test'
const FOUND: ClientHelloResult = { kind: 'hello', sni: NAME, ech: false }
const BROWSER: HelloOptions = { grease: true, keyShare: 'x25519mlkem768', alpn: ['h2', 'http/1.1'] }

suite('a split ClientHello is read as if it came at once', () => {
  const encoded = clientHello(BROWSER)

  test('in two segments split at every offset', () => {
    assert.deepEqual(read(encoded), FOUND)
    for (let cut = 1; cut < encoded.length; cut++) {
      const reader = new ClientHelloReader()
      assert.equal(reader.push(encoded.subarray(0, cut)).kind, 'more', `cut at ${cut}`)
      assert.deepEqual(reader.push(encoded.subarray(cut)), FOUND, `cut at ${cut}`)
    }
  })

  for (const bytes of [1, 2, 3, 16, 536, 1460]) {
    test(`in segments of ${bytes}`, () => assert.deepEqual(readBy(encoded, bytes), FOUND))
  }

  test('in two records split at every offset, in one segment and in segments of one byte', () => {
    for (let cut = 1; cut < helloMessage().length; cut++) {
      const cutWire = clientHello({ cuts: [cut] })
      assert.deepEqual(read(cutWire), FOUND, `cut at ${cut}`)
      assert.deepEqual(readBy(cutWire, 1), FOUND, `cut at ${cut}`)
    }
  })

  test('in records split before, inside and after the name', () => {
    const at = helloMessage(BROWSER).indexOf(NAME)
    const places = { before: [at], inside: [at + 4], after: [at + NAME.length], all: [at, at + 4, at + NAME.length] }
    for (const [where, cuts] of Object.entries(places)) {
      const cutWire = clientHello({ ...BROWSER, cuts })
      assert.deepEqual(read(cutWire), FOUND, where)
      assert.deepEqual(readBy(cutWire, 1), FOUND, where)
    }
  })

  test('in records of one byte', () => {
    const small = clientHello({ ...BROWSER, recordBytes: 1 })
    assert.ok(small.length > 6 * 1200)
    assert.deepEqual(read(small), FOUND)
    assert.deepEqual(readBy(small, 1), FOUND)
    assert.deepEqual(readBy(small, 7), FOUND)
  })

  test('in 64 records', () => {
    const recordBytes = Math.ceil(helloMessage(BROWSER).length / 64)
    assert.deepEqual(read(clientHello({ ...BROWSER, recordBytes })), FOUND)
    assert.deepEqual(readBy(clientHello({ ...BROWSER, recordBytes }), 100), FOUND)
  })

  test('but is unreadable with another record type between its records', () => {
    const message = helloMessage()
    const between = [20, 21, 23, 24].map((type) => record(Buffer.of(1, 90), { type }))
    for (const other of between) {
      const bytes = Buffer.concat([record(message.subarray(0, 90)), other, record(message.subarray(90))])
      assertUnreadable(bytes, /in between/)
    }
  })

  test('from memory that is reused after the call', () => {
    const reader = new ClientHelloReader()
    const segment = Buffer.alloc(100)
    for (let at = 0; at < encoded.length; at += 100) {
      const bytes = segment.subarray(0, encoded.copy(segment, 0, at))
      const answer = reader.push(bytes)
      segment.fill(0)
      assert.deepEqual(answer, at + 100 < encoded.length ? { kind: 'more' } : FOUND)
    }
  })

  test('ignoring the bytes after it', () => {
    const reader = new ClientHelloReader()
    assert.deepEqual(reader.push(Buffer.concat([encoded, Buffer.alloc(70_000, 0x41)])), FOUND)
    assert.deepEqual(reader.push(clientHello({ sni: 'other.test' })), FOUND)
    assert.deepEqual(reader.push(Buffer.from('GET / HTTP/1.1\r\n')), FOUND)
  })
})

suite('a large ClientHello is read up to 64 KiB', () => {
  for (const sizeBytes of [1500, 2048, 4096, 4097, 8192, 16_384, 16_389, 16_395, 32_768, 65_535, 65_536]) {
    test(`with ${sizeBytes} bytes`, () => {
      const encoded = clientHello({ ...BROWSER, sizeBytes })
      assert.equal(encoded.length, sizeBytes)
      for (const bytes of [sizeBytes, 1460, 1]) assert.deepEqual(readBy(encoded, bytes), FOUND, `segments of ${bytes}`)
    })
  }

  test('with keys of X25519MLKEM768 and ML-KEM-1024', () => {
    for (const keyShare of ['x25519mlkem768', 'secp384r1mlkem1024'] as const) {
      assert.deepEqual(read(clientHello({ keyShare })), FOUND)
    }
  })

  test('and is unreadable with one byte more', () => {
    const encoded = clientHello({ sizeBytes: 65_537 })
    for (const bytes of [encoded.length, 1460, 1]) {
      assert.deepEqual(readBy(encoded, bytes), { kind: 'unreadable', why: 'it is longer than 64 KiB' })
    }
  })

  test('and is refused as soon as it announces more', () => {
    const message = helloMessage({ lies: { message: 100_000 } })
    const reader = new ClientHelloReader()
    assert.equal(reader.push(record(message).subarray(0, 8)).kind, 'more')
    assert.equal(reader.push(record(message).subarray(8, 9)).kind, 'unreadable')
  })

  test('and is unreadable if the record headers exceed 64 KiB', () => {
    const encoded = clientHello({ sizeBytes: 12_000, recordBytes: 1 })
    assert.equal(read(encoded).kind, 'hello')
    assertUnreadable(
      clientHello({ ...BROWSER, recordBytes: 1, extensions: [extension(21, Buffer.alloc(12_000))] }),
      /64 KiB/,
    )
  })

  test('and uses little memory while it announces much and sends little', () => {
    const start = clientHello({ sizeBytes: 16_000 }).subarray(0, 200)
    const before = process.memoryUsage().arrayBuffers
    const readers = Array.from({ length: 2000 }, () => new ClientHelloReader())
    for (const reader of readers) assert.equal(reader.push(start).kind, 'more')
    const each = (process.memoryUsage().arrayBuffers - before) / readers.length
    assert.ok(each <= 2500, `${each} bytes for each`)
  })
})

suite('an unusual ClientHello is unreadable', () => {
  const message = helloMessage()
  const half = [message.subarray(0, 60), message.subarray(60)] as const

  const malformed: Record<string, readonly [Buffer, RegExp]> = {
    'an empty record first': [Buffer.concat([record(Buffer.alloc(0)), record(message)]), /empty/],
    'an empty record between': [Buffer.concat([record(half[0]), record(Buffer.alloc(0)), record(half[1])]), /empty/],
    'a record of 2^14 + 1 bytes': [oneRecord(2 ** 14 + 1), /16 KiB/],
    'a record of 2^14 + 256 bytes, which only an encrypted one may have': [oneRecord(2 ** 14 + 256), /16 KiB/],
    'a record that says 65535': [record(message, { length: 65_535 }), /16 KiB/],
    'a handshake of type 0': [clientHello({ messageType: 0 }), /another message/],
    'a handshake of type 2': [clientHello({ messageType: 2 }), /another message/],
    'a message shorter than its fields': [
      record(helloMessage({ lies: { message: -5 } }).subarray(0, -5)),
      /extensions do not fit/,
    ],
    'a second message in the record of the first': [
      record(Buffer.concat([helloMessage(), helloMessage({ sni: 'other.test' })])),
      /something follows it/,
    ],
    'a message of no bytes': [record(Buffer.of(1, 0, 0, 0)), /fields/],
    'a message of one byte': [record(Buffer.of(1, 0, 0, 1, 3)), /fields/],
    'extensions longer than the message': [clientHello({ lies: { extensions: 1 } }), /extensions do not fit/],
    'extensions shorter than the message': [clientHello({ lies: { extensions: -1 } }), /extensions do not fit/],
    'half a length of extensions': [withBody((body) => Buffer.concat([body, Buffer.of(0)])), /extensions do not fit/],
    'an extension that overruns the block': [
      clientHello({ extensions: [extension(35, Buffer.alloc(3), 4)] }),
      /longer than the list of extensions/,
    ],
    'an extension cut off in its header': [clientHello({ extensions: [Buffer.of(0, 35, 0)] }), /cut off/],
    'a session id of 33 bytes': [clientHello({ sessionId: Buffer.alloc(33) }), /fields/],
    'no cipher suite': [clientHello({ suites: Buffer.alloc(0) }), /fields/],
    'half a cipher suite': [clientHello({ suites: Buffer.alloc(3) }), /fields/],
    'no compression method': [clientHello({ compressions: Buffer.alloc(0) }), /fields/],
    'two server name extensions': [names([{ name: NAME }], [{ name: 'other.test' }]), /two server name/],
    'two server name extensions that say the same': [names([{ name: NAME }], [{ name: NAME }]), /two server name/],
    'a second server name extension at the end': [
      clientHello({ extensions: [serverNameExtension([{ name: 'other.test' }])] }),
      /two server name/,
    ],
    'two names': [names([{ name: NAME }, { name: 'other.test' }]), /more than one/],
    'two names of which one is of another type': [names([{ name: NAME }, { type: 1, name: 'x' }]), /more than one/],
    'a name of type 1': [names([{ type: 1, name: NAME }]), /not a host name/],
    'a name of type 255': [names([{ type: 255, name: NAME }]), /not a host name/],
    'an empty name': [clientHello({ sni: '' }), /empty/],
    'an empty list': [names([]), /list of server names/],
    'an empty extension': [rawNames(Buffer.alloc(0)), /list of server names/],
    'a list longer than its extension': [rawNames(Buffer.of(0, 9, 0, 0, 1, 0x61)), /list of server names/],
    'a list shorter than its extension': [rawNames(Buffer.of(0, 4, 0, 0, 1, 0x61, 0)), /list of server names/],
    'a name longer than its list': [rawNames(Buffer.of(0, 4, 0, 0, 2, 0x61)), /longer than the list of names/],
    'a trailing dot': [clientHello({ sni: `${NAME}.` }), /no host name has/],
    'a leading dot': [clientHello({ sni: `.${NAME}` }), /no host name has/],
    'two dots': [clientHello({ sni: 'example..test' }), /no host name has/],
    'a dot alone': [clientHello({ sni: '.' }), /no host name has/],
    'UTF-8': [clientHello({ sni: 'exämple.test' }), /no host name has/],
    'Latin-1': [clientHello({ sni: Buffer.from('exämple.test', 'latin1') }), /no host name has/],
    'a NUL behind an allowed name': [clientHello({ sni: `${NAME}\0.other.test` }), /no host name has/],
    'a line break': [clientHello({ sni: `${NAME}\r\nx: y` }), /no host name has/],
    'a space': [clientHello({ sni: `${NAME} ` }), /no host name has/],
    'a port': [clientHello({ sni: `${NAME}:443` }), /no host name has/],
    'a wildcard': [clientHello({ sni: '*.test' }), /no host name has/],
    'an IPv6 literal': [clientHello({ sni: '::1' }), /no host name has/],
    'an IPv6 literal in brackets': [clientHello({ sni: '[::1]' }), /no host name has/],
    '254 bytes': [clientHello({ sni: nameOf(254) }), /too long/],
    '1000 bytes': [clientHello({ sni: nameOf(1000) }), /too long/],
  }
  for (const [sentence, [bytes, why]] of Object.entries(malformed)) {
    test(sentence, () => assertUnreadable(bytes, why))
  }

  test('except with versions 0x0300 to 0x0304 in the record and the message', () => {
    for (const version of [0x0300, 0x0301, 0x0302, 0x0303, 0x0304]) {
      assert.deepEqual(read(clientHello({ version })), FOUND)
      assert.deepEqual(read(clientHello({ recordVersion: version })), FOUND)
    }
    for (const version of [0x0000, 0x0002, 0x0200, 0x02ff, 0x0305, 0x03ff, 0x0400, 0x7f1c, 0xfefd]) {
      assertUnreadable(clientHello({ version }), /version/)
      assertUnreadable(clientHello({ recordVersion: version }), /version/)
    }
  })

  test('except with a record of exactly 2^14 bytes', () => assert.deepEqual(read(oneRecord(2 ** 14)), FOUND))

  test('except with a name of 253 bytes, which is returned as sent', () => {
    for (const sni of [nameOf(253), 'a', 'Example.TEST', '_dmarc.xn--exmple-cua.test']) {
      assert.deepEqual(read(clientHello({ sni })), { ...FOUND, sni })
    }
  })

  test('except with an IPv4 literal, which parseHost handles', () => {
    for (const sni of ['127.0.0.1', '127.1', '2130706433', '0x7f.1']) {
      assert.deepEqual(read(clientHello({ sni })), { ...FOUND, sni })
    }
  })
})

suite('no server name, ECH, or another protocol', () => {
  test('reads a ClientHello without a server name', () => {
    const nameless: ClientHelloResult = { kind: 'hello', sni: undefined, ech: false }
    assert.deepEqual(read(clientHello({ sni: null })), nameless)
    assert.deepEqual(read(clientHello({ hasExtensions: false, version: 0x0301 })), nameless)
  })

  test('returns the outer name with ECH, real or GREASE, and reports ECH', () => {
    for (const ech of ['real', 'grease'] as const) {
      assert.deepEqual(read(clientHello({ ech })), { ...FOUND, ech: true })
      assert.deepEqual(readBy(clientHello({ ech, recordBytes: 40 }), 3), { ...FOUND, ech: true })
      assert.deepEqual(read(clientHello({ ech, sni: null })), { kind: 'hello', sni: undefined, ech: true })
    }
  })

  const others: Record<string, Buffer> = {
    'an SSLv2 hello': Buffer.from('802e0100020015000000100100800200800300800400800500800600', 'hex'),
    'plain HTTP': Buffer.from('GET / HTTP/1.1\r\nHost: example.test\r\n\r\n'),
    SSH: Buffer.from('SSH-2.0-OpenSSH_10.0\r\n'),
    'the preface of HTTP/2': Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    'a startup message of PostgreSQL': Buffer.from('0000000804d2162f', 'hex'),
  }
  for (const [what, bytes] of Object.entries(others)) {
    test(`rejects ${what} as not TLS at the first byte`, () => {
      assert.deepEqual(read(bytes.subarray(0, 1)), { kind: 'not-tls' })
      assert.deepEqual(read(bytes), { kind: 'not-tls' })
    })
  }

  test('rejects an SSLv2 hello even if a TLS one follows', () => {
    const reader = new ClientHelloReader()
    reader.push(Buffer.from('802e01', 'hex'))
    assert.equal(reader.push(clientHello()).kind, 'not-tls')
  })

  test('treats a warning alert before the ClientHello, which Go skips, as TLS', () => {
    for (const header of ['1503010002', '1503030002', '1502000002', '1504010002', '15ffff0002', '1503010004']) {
      assertUnreadable(Buffer.concat([Buffer.from(`${header}015b`, 'hex'), clientHello()]), /before it/)
    }
    for (const type of [20, 23, 24]) {
      assertUnreadable(Buffer.concat([record(Buffer.of(1), { type }), clientHello()]), /before it/)
    }
  })

  test('rejects other protocols that start with the byte of a TLS alert', () => {
    const mongo = Buffer.from('15010000d400000000000000d4070000', 'hex')
    assert.deepEqual(read(mongo), { kind: 'not-tls' })
    assert.deepEqual(readBy(mongo, 1), { kind: 'not-tls' })
  })

  test('has no result without bytes', () => {
    const reader = new ClientHelloReader()
    assert.equal(reader.push(Buffer.alloc(0)).kind, 'more')
    assert.deepEqual(reader.push(clientHello()), FOUND)
  })
})

suite('reads the ClientHello of real clients', () => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`Node with ${version}`, async () => {
      const hello = await recordHello((port) => {
        const options = { port, host: '127.0.0.1', servername: NAME, minVersion: version, maxVersion: version }
        const client = connect({ ...options, ALPNProtocols: ['h2', 'http/1.1'] })
        client.on('error', () => client.destroy())
      })
      assertReal(hello)
    })
  }

  test('Node without a server name', async () => {
    const hello = await recordHello((port) => {
      const client = connect({ port, host: '127.0.0.1', servername: '' })
      client.on('error', () => client.destroy())
    })
    assert.deepEqual(read(hello), { kind: 'hello', sni: undefined, ech: false })
  })

  for (const limit of [['--tls-max', '1.2'], ['--tlsv1.3']]) {
    test(`curl ${limit.join(' ')}`, needs('curl'), async () => {
      const hello = await recordHello((port) => {
        const way = ['--connect-to', `${NAME}:443:127.0.0.1:${port}`, '--noproxy', '*']
        execFile('curl', ['-s', '--max-time', '60', ...limit, ...way, `https://${NAME}/`], () => {})
      })
      assertReal(hello)
    })
  }
})

function read(bytes: Uint8Array): ClientHelloResult {
  return new ClientHelloReader().push(bytes)
}

/** Feeds segments of this many bytes; all but the last must be incomplete if the result is a ClientHello. */
function readBy(bytes: Uint8Array, segmentBytes: number): ClientHelloResult {
  const reader = new ClientHelloReader()
  let answer = reader.push(bytes.subarray(0, segmentBytes))
  for (let at = segmentBytes; at < bytes.length; at += segmentBytes) {
    if (answer.kind === 'hello') assert.fail(`decided after ${at} of ${bytes.length} bytes`)
    answer = reader.push(bytes.subarray(at, at + segmentBytes))
  }
  return answer
}

function assertUnreadable(bytes: Uint8Array, why: RegExp): void {
  const answer = read(bytes)
  assert.equal(answer.kind, 'unreadable')
  assert.match(answer.kind === 'unreadable' ? answer.why : '', why)
  assert.deepEqual(readBy(bytes, 1), answer)
}

function assertReal(hello: Buffer): void {
  assert.deepEqual(read(hello), FOUND)
  assert.deepEqual(readBy(hello, 1), FOUND)
}

function oneRecord(bytes: number): Buffer {
  return record(helloMessage({ sizeBytes: bytes + 5 * Math.ceil(bytes / 2 ** 14) }))
}

function names(...serverNames: NonNullable<HelloOptions['serverNames']>): Buffer {
  return clientHello({ serverNames })
}

function rawNames(body: Buffer): Buffer {
  return clientHello({ sni: null, extensions: [extension(0, body)] })
}

/** A ClientHello without extensions with a changed body and corrected length. */
function withBody(change: (body: Buffer) => Buffer): Buffer {
  const body = change(helloMessage({ hasExtensions: false }).subarray(4))
  return record(Buffer.concat([Buffer.of(1, 0, body.length >> 8, body.length & 0xff), body]))
}

function nameOf(bytes: number): string {
  return 'a23456789.'
    .repeat(Math.ceil(bytes / 10))
    .slice(0, bytes - 1)
    .concat('z')
}

/** The bytes that a client sends first. */
async function recordHello(start: (port: number) => void): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is never a path.
  start((server.address() as AddressInfo).port)
  const [socket]: Socket[] = await once(server, 'connection')
  assert.ok(socket)
  const reader = new ClientHelloReader()
  const chunks: Buffer[] = []
  for await (const chunk of socket) {
    chunks.push(chunk)
    if (reader.push(chunk).kind !== 'more') break
  }
  server.close()
  return Buffer.concat(chunks)
}
