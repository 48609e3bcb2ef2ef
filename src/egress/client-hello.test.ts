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
} from '../../test/support/client-hello.ts'
import { needs } from '../../test/support/needs.ts'
import { type Hello, HelloReader } from './client-hello.ts'

const NAME = 'example.test'
const FOUND: Hello = { kind: 'hello', sni: NAME, ech: false }
const BROWSER: HelloOptions = { grease: true, keyShare: 'x25519mlkem768', alpn: ['h2', 'http/1.1'] }

suite('a ClientHello that comes in pieces is read as if it came at once', () => {
  const wire = clientHello(BROWSER)

  test('X7: cut into two segments at every offset', () => {
    assert.deepEqual(read(wire), FOUND)
    for (let cut = 1; cut < wire.length; cut++) {
      const reader = new HelloReader()
      assert.equal(reader.push(wire.subarray(0, cut)).kind, 'more', `cut at ${cut}`)
      assert.deepEqual(reader.push(wire.subarray(cut)), FOUND, `cut at ${cut}`)
    }
  })

  for (const bytes of [1, 2, 3, 16, 536, 1460]) {
    test(`X7: in segments of ${bytes}`, () => assert.deepEqual(readBy(wire, bytes), FOUND))
  }

  test('X8: cut into two records at every offset, in one segment and in segments of one byte', () => {
    for (let cut = 1; cut < helloMessage().length; cut++) {
      const cutWire = clientHello({ cuts: [cut] })
      assert.deepEqual(read(cutWire), FOUND, `cut at ${cut}`)
      assert.deepEqual(readBy(cutWire, 1), FOUND, `cut at ${cut}`)
    }
  })

  test('X8: cut into records before, inside and after the name', () => {
    const at = helloMessage(BROWSER).indexOf(NAME)
    const places = { before: [at], inside: [at + 4], after: [at + NAME.length], all: [at, at + 4, at + NAME.length] }
    for (const [where, cuts] of Object.entries(places)) {
      const cutWire = clientHello({ ...BROWSER, cuts })
      assert.deepEqual(read(cutWire), FOUND, where)
      assert.deepEqual(readBy(cutWire, 1), FOUND, where)
    }
  })

  test('X8: in records of one byte', () => {
    const small = clientHello({ ...BROWSER, recordBytes: 1 })
    assert.ok(small.length > 6 * 1200)
    assert.deepEqual(read(small), FOUND)
    assert.deepEqual(readBy(small, 1), FOUND)
    assert.deepEqual(readBy(small, 7), FOUND)
  })

  test('X8: in 64 records', () => {
    const recordBytes = Math.ceil(helloMessage(BROWSER).length / 64)
    assert.deepEqual(read(clientHello({ ...BROWSER, recordBytes })), FOUND)
    assert.deepEqual(readBy(clientHello({ ...BROWSER, recordBytes }), 100), FOUND)
  })

  test('X8: a record of another kind between the records of the hello is unreadable', () => {
    const message = helloMessage()
    const between = [20, 21, 23, 24].map((type) => record(Buffer.of(1, 90), { type }))
    for (const other of between) {
      const bytes = Buffer.concat([record(message.subarray(0, 90)), other, record(message.subarray(90))])
      assertUnreadable(bytes, /in between/)
    }
  })

  test('it may lie in memory that is used again after the call', () => {
    const reader = new HelloReader()
    const segment = Buffer.alloc(100)
    for (let at = 0; at < wire.length; at += 100) {
      const bytes = segment.subarray(0, wire.copy(segment, 0, at))
      const answer = reader.push(bytes)
      segment.fill(0)
      assert.deepEqual(answer, at + 100 < wire.length ? { kind: 'more' } : FOUND)
    }
  })

  test('what follows it is not looked at, and does not change the answer', () => {
    const reader = new HelloReader()
    assert.deepEqual(reader.push(Buffer.concat([wire, Buffer.alloc(70_000, 0x41)])), FOUND)
    assert.deepEqual(reader.push(clientHello({ sni: 'other.test' })), FOUND)
    assert.deepEqual(reader.push(Buffer.from('GET / HTTP/1.1\r\n')), FOUND)
  })
})

suite('a large ClientHello is read, up to 64 KiB', () => {
  for (const sizeBytes of [1500, 2048, 4096, 4097, 8192, 16_384, 16_389, 16_395, 32_768, 65_535, 65_536]) {
    test(`X9: ${sizeBytes} bytes`, () => {
      const wire = clientHello({ ...BROWSER, sizeBytes })
      assert.equal(wire.length, sizeBytes)
      for (const bytes of [sizeBytes, 1460, 1]) assert.deepEqual(readBy(wire, bytes), FOUND, `segments of ${bytes}`)
    })
  }

  test('X9: keys of X25519MLKEM768 and of ML-KEM-1024', () => {
    for (const keyShare of ['x25519mlkem768', 'secp384r1mlkem1024'] as const) {
      assert.deepEqual(read(clientHello({ keyShare })), FOUND)
    }
  })

  test('X9: one byte more is unreadable, however it comes', () => {
    const wire = clientHello({ sizeBytes: 65_537 })
    for (const bytes of [wire.length, 1460, 1]) {
      assert.deepEqual(readBy(wire, bytes), { kind: 'unreadable', why: 'it is longer than 64 KiB' })
    }
  })

  test('X9: one that announces more is refused when it says so, not 64 KiB later', () => {
    const message = helloMessage({ lies: { message: 100_000 } })
    const reader = new HelloReader()
    assert.equal(reader.push(record(message).subarray(0, 8)).kind, 'more')
    assert.equal(reader.push(record(message).subarray(8, 9)).kind, 'unreadable')
  })

  test('X9: a short message in so many records that it goes past 64 KiB is unreadable', () => {
    const wire = clientHello({ sizeBytes: 12_000, recordBytes: 1 })
    assert.equal(read(wire).kind, 'hello')
    assertUnreadable(
      clientHello({ ...BROWSER, recordBytes: 1, extensions: [extension(21, Buffer.alloc(12_000))] }),
      /64 KiB/,
    )
  })

  test('a connection that announces much and sends little costs little', () => {
    const start = clientHello({ sizeBytes: 16_000 }).subarray(0, 200)
    const before = process.memoryUsage().arrayBuffers
    const readers = Array.from({ length: 2000 }, () => new HelloReader())
    for (const reader of readers) assert.equal(reader.push(start).kind, 'more')
    const each = (process.memoryUsage().arrayBuffers - before) / readers.length
    assert.ok(each <= 2500, `${each} bytes for each`)
  })
})

suite('what no client sends is unreadable', () => {
  const message = helloMessage()
  const half = [message.subarray(0, 60), message.subarray(60)] as const

  const malformed: Record<string, readonly [Buffer, RegExp]> = {
    'X10: an empty record first': [Buffer.concat([record(Buffer.alloc(0)), record(message)]), /empty/],
    'X10: an empty record between': [
      Buffer.concat([record(half[0]), record(Buffer.alloc(0)), record(half[1])]),
      /empty/,
    ],
    'X10: a record of 2^14 + 1 bytes': [oneRecord(2 ** 14 + 1), /16 KiB/],
    'X10: a record of 2^14 + 256 bytes, which only an encrypted one may have': [oneRecord(2 ** 14 + 256), /16 KiB/],
    'X10: a record that says 65535': [record(message, { length: 65_535 }), /16 KiB/],
    'X10: a handshake of type 0': [clientHello({ messageType: 0 }), /another message/],
    'X10: a handshake of type 2': [clientHello({ messageType: 2 }), /another message/],
    'X10: a message shorter than its fields': [
      record(helloMessage({ lies: { message: -5 } }).subarray(0, -5)),
      /extensions do not fit/,
    ],
    'X10: a second message in the record of the first': [
      record(Buffer.concat([helloMessage(), helloMessage({ sni: 'other.test' })])),
      /something follows it/,
    ],
    'X10: a message of no bytes': [record(Buffer.of(1, 0, 0, 0)), /fields/],
    'X10: a message of one byte': [record(Buffer.of(1, 0, 0, 1, 3)), /fields/],
    'X10: extensions longer than the message': [clientHello({ lies: { extensions: 1 } }), /extensions do not fit/],
    'X10: extensions shorter than the message': [clientHello({ lies: { extensions: -1 } }), /extensions do not fit/],
    'X10: half a length of extensions': [
      withBody((body) => Buffer.concat([body, Buffer.of(0)])),
      /extensions do not fit/,
    ],
    'X10: an extension that overruns the block': [
      clientHello({ extensions: [extension(35, Buffer.alloc(3), 4)] }),
      /longer than what holds it/,
    ],
    'X10: an extension cut off in its header': [clientHello({ extensions: [Buffer.of(0, 35, 0)] }), /cut off/],
    'X10: a session id of 33 bytes': [clientHello({ sessionId: Buffer.alloc(33) }), /fields/],
    'X10: no cipher suite': [clientHello({ suites: Buffer.alloc(0) }), /fields/],
    'X10: half a cipher suite': [clientHello({ suites: Buffer.alloc(3) }), /fields/],
    'X10: no compression method': [clientHello({ compressions: Buffer.alloc(0) }), /fields/],
    'X11: two server name extensions': [names([{ name: NAME }], [{ name: 'other.test' }]), /two server name/],
    'X11: two server name extensions that say the same': [names([{ name: NAME }], [{ name: NAME }]), /two server name/],
    'X11: a second server name extension at the end': [
      clientHello({ extensions: [serverNameExtension([{ name: 'other.test' }])] }),
      /two server name/,
    ],
    'X11: two names': [names([{ name: NAME }, { name: 'other.test' }]), /more than one/],
    'X11: two names of which one is of another type': [
      names([{ name: NAME }, { type: 1, name: 'x' }]),
      /more than one/,
    ],
    'X11: a name of type 1': [names([{ type: 1, name: NAME }]), /not a host name/],
    'X11: a name of type 255': [names([{ type: 255, name: NAME }]), /not a host name/],
    'X11: an empty name': [clientHello({ sni: '' }), /empty/],
    'X11: an empty list': [names([]), /list of server names/],
    'X11: an empty extension': [rawNames(Buffer.alloc(0)), /list of server names/],
    'X11: a list longer than its extension': [rawNames(Buffer.of(0, 9, 0, 0, 1, 0x61)), /list of server names/],
    'X11: a list shorter than its extension': [rawNames(Buffer.of(0, 4, 0, 0, 1, 0x61, 0)), /list of server names/],
    'X11: a name longer than its list': [rawNames(Buffer.of(0, 4, 0, 0, 2, 0x61)), /longer than what holds it/],
    'X11: a trailing dot': [clientHello({ sni: `${NAME}.` }), /no host name has/],
    'X11: a leading dot': [clientHello({ sni: `.${NAME}` }), /no host name has/],
    'X11: two dots': [clientHello({ sni: 'example..test' }), /no host name has/],
    'X11: a dot alone': [clientHello({ sni: '.' }), /no host name has/],
    'X11: UTF-8': [clientHello({ sni: 'exämple.test' }), /no host name has/],
    'X11: Latin-1': [clientHello({ sni: Buffer.from('exämple.test', 'latin1') }), /no host name has/],
    'X11: a NUL behind an allowed name': [clientHello({ sni: `${NAME}\0.other.test` }), /no host name has/],
    'X11: a line break': [clientHello({ sni: `${NAME}\r\nx: y` }), /no host name has/],
    'X11: a space': [clientHello({ sni: `${NAME} ` }), /no host name has/],
    'X11: a port': [clientHello({ sni: `${NAME}:443` }), /no host name has/],
    'X11: a wildcard': [clientHello({ sni: '*.test' }), /no host name has/],
    'X11: an IPv6 literal': [clientHello({ sni: '::1' }), /no host name has/],
    'X11: an IPv6 literal in brackets': [clientHello({ sni: '[::1]' }), /no host name has/],
    'X11: 254 bytes': [clientHello({ sni: nameOf(254) }), /too long/],
    'X11: 1000 bytes': [clientHello({ sni: nameOf(1000) }), /too long/],
  }
  for (const [sentence, [bytes, why]] of Object.entries(malformed)) {
    test(sentence, () => assertUnreadable(bytes, why))
  }

  test('X10: versions 0x0300 to 0x0304 are read, in the record and in the message, and no others', () => {
    for (const version of [0x0300, 0x0301, 0x0302, 0x0303, 0x0304]) {
      assert.deepEqual(read(clientHello({ version })), FOUND)
      assert.deepEqual(read(clientHello({ recordVersion: version })), FOUND)
    }
    for (const version of [0x0000, 0x0002, 0x0200, 0x02ff, 0x0305, 0x03ff, 0x0400, 0x7f1c, 0xfefd]) {
      assertUnreadable(clientHello({ version }), /version/)
      assertUnreadable(clientHello({ recordVersion: version }), /version/)
    }
  })

  test('X10: a record of just 2^14 bytes is read', () => assert.deepEqual(read(oneRecord(2 ** 14)), FOUND))

  test('X11: 253 bytes are read, and the name is as it was sent', () => {
    for (const sni of [nameOf(253), 'a', 'Example.TEST', '_dmarc.xn--exmple-cua.test']) {
      assert.deepEqual(read(clientHello({ sni })), { ...FOUND, sni })
    }
  })

  test('X11: an IPv4 literal is handed on as it was sent, for the parser of hosts to call it an address', () => {
    for (const sni of ['127.0.0.1', '127.1', '2130706433', '0x7f.1']) {
      assert.deepEqual(read(clientHello({ sni })), { ...FOUND, sni })
    }
  })
})

suite('what has no name, another name inside, or is no TLS', () => {
  test('X12: a hello without a server name says so', () => {
    const nameless: Hello = { kind: 'hello', sni: undefined, ech: false }
    assert.deepEqual(read(clientHello({ sni: null })), nameless)
    assert.deepEqual(read(clientHello({ hasExtensions: false, version: 0x0301 })), nameless)
  })

  test('X13: of ECH, real or GREASE, the outer name counts, and that it is there is told', () => {
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
    test(`X14: ${what} is not TLS, and the first byte says so`, () => {
      assert.deepEqual(read(bytes.subarray(0, 1)), { kind: 'not-tls' })
      assert.deepEqual(read(bytes), { kind: 'not-tls' })
    })
  }

  test('X14: an SSLv2 hello stays so when a TLS one follows', () => {
    const reader = new HelloReader()
    reader.push(Buffer.from('802e01', 'hex'))
    assert.equal(reader.push(clientHello()).kind, 'not-tls')
  })

  test('X14: a warning before the hello, which Go passes over, does not make it something else than TLS', () => {
    for (const header of ['1503010002', '1503030002', '1502000002', '1504010002', '15ffff0002', '1503010004']) {
      assertUnreadable(Buffer.concat([Buffer.from(`${header}015b`, 'hex'), clientHello()]), /before it/)
    }
    for (const type of [20, 23, 24]) {
      assertUnreadable(Buffer.concat([record(Buffer.of(1), { type }), clientHello()]), /before it/)
    }
  })

  test('X14: other protocols may begin with the byte of a TLS alert', () => {
    const mongo = Buffer.from('15010000d400000000000000d4070000', 'hex')
    assert.deepEqual(read(mongo), { kind: 'not-tls' })
    assert.deepEqual(readBy(mongo, 1), { kind: 'not-tls' })
  })

  test('no bytes, no answer', () => {
    const reader = new HelloReader()
    assert.equal(reader.push(Buffer.alloc(0)).kind, 'more')
    assert.deepEqual(reader.push(clientHello()), FOUND)
  })
})

suite('what real clients send is read', () => {
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

function read(bytes: Uint8Array): Hello {
  return new HelloReader().push(bytes)
}

/** In segments of so many bytes, all but the last of which must leave it open if it ends as a hello. */
function readBy(bytes: Uint8Array, segmentBytes: number): Hello {
  const reader = new HelloReader()
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

/** A hello without extensions whose body was changed, with the length put right. */
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

/** The bytes that a client sends before it hears anything. */
async function recordHello(start: (port: number) => void): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is never a path.
  start((server.address() as AddressInfo).port)
  const [socket]: Socket[] = await once(server, 'connection')
  assert.ok(socket)
  const reader = new HelloReader()
  const chunks: Buffer[] = []
  for await (const chunk of socket) {
    chunks.push(chunk)
    if (reader.push(chunk).kind !== 'more') break
  }
  server.close()
  return Buffer.concat(chunks)
}
