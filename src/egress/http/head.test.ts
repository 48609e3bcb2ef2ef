import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { HEAD_MAX, readRequestHead, readResponseHead } from './head.ts'

const read = (text: string) => readRequestHead(Buffer.from(text, 'latin1'))

/** Each rule as one expression over the whole text: slow, and without shared code. */
function isStrict(text: string): boolean {
  const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
  const line = `${token} [\\x21-\\x7e\\x80-\\xff]+ HTTP/1\\.[01]\\r\\n`
  const field = `${token}:[\\t\\x20-\\x7e\\x80-\\xff]*\\r\\n`
  const [head = ''] = new RegExp(`^(?:\\r\\n){0,16}${line}(?:${field})*\\r\\n`).exec(text) ?? []
  if (head === '' || head.length > 65_536) return false
  const all = (name: string): string[] =>
    [...head.matchAll(new RegExp(`^${name}:(.*)\\r$`, 'gim'))].map(([, v]) => v ?? '')
  const [lengths, codings, hosts] = [all('content-length'), all('transfer-encoding'), all('host')]
  const isOld = head.includes(' HTTP/1.0\r\n')
  const connection = all('connection').join(',')
  return (
    lengths.length + codings.length < 2 &&
    lengths.every((value) => /^ ?(?:0|[1-9]\d*)$/.test(value) && Number.isSafeInteger(Number(value))) &&
    codings.every((value) => /^ ?chunked$/i.test(value)) &&
    !(isOld && codings.length > 0) &&
    (isOld ? hosts.length < 2 : hosts.length === 1) &&
    new RegExp(`^[\\s,]*(?:${token}[\\s,]*(?:,[\\s,]*|$))*$`).test(connection) &&
    !/(?:^|,)\s*(?:host|content-length|transfer-encoding)\s*(?:,|$)/i.test(connection) &&
    (head.match(/\r\n/g)?.length ?? 0) < 1003
  )
}

suite('a request head', () => {
  test('is parsed with its fields unchanged', () => {
    const result = read('GET http://a/ HTTP/1.1\r\nHost: a\r\nX-Y: \t v w\t \r\nx-y:\r\nTE: trailers\r\n\r\nrest')
    assert.equal(result.kind, 'head')
    const { head, end } = result
    assert.equal(end, 'GET http://a/ HTTP/1.1\r\nHost: a\r\nX-Y: \t v w\t \r\nx-y:\r\nTE: trailers\r\n\r\n'.length)
    assert.deepEqual(
      head.fields.map(({ name, value }) => [name, value]),
      [
        ['Host', 'a'],
        ['X-Y', 'v w'],
        ['x-y', ''],
        ['TE', 'trailers'],
      ],
    )
    assert.equal(head.wantsTrailers, true)
    assert.equal(head.keepAlive, true)
  })

  test('may follow sixteen empty lines but not seventeen', () => {
    const head = 'GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n'
    for (const count of [1, 2, 16]) {
      const result = read(`${'\r\n'.repeat(count)}${head}`)
      assert.equal(result.kind === 'head' && result.end, 2 * count + head.length)
      assert.equal(read('\r\n'.repeat(count)).kind, 'more')
      assert.equal(read(`${'\r\n'.repeat(count - 1)}\r`).kind, 'more')
    }
    const why = 'too many empty lines before the request'
    for (const rest of [head, ''])
      assert.deepEqual(read(`${'\r\n'.repeat(17)}${rest}`), { kind: 'bad', status: 400, why })
    assert.equal(read(`\n${head}`).kind, 'bad')
    assert.equal(read(`\r\n\n${head}`).kind, 'bad')
  })

  test('with an invalid method is 400, with another version 505', () => {
    const statusOf = (line: string): number | undefined => {
      const result = read(`${line}\r\nHost: a\r\n\r\n`)
      return result.kind === 'bad' ? result.status : undefined
    }
    for (const line of ['G@T / HTTP/1.1', 'G(T / HTTP/1.0', '"GET" / HTTP/1.1', 'G@T / HTTP/2.0', 'GET / http/2.0'])
      assert.equal(statusOf(line), 400, line)
    for (const line of ['GET / HTTP/2.0', 'GET / HTTP/1.2', 'GET / HTTP/0.9', 'PRI * HTTP/2.0'])
      assert.equal(statusOf(line), 505, line)
    assert.equal(statusOf('G-T / HTTP/1.1'), undefined)
  })

  test('split at any offset is incomplete at first, then complete', () => {
    const text = '\r\n\r\nPOST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n'
    for (let at = 0; at < text.length; at++) {
      assert.equal(read(text.slice(0, at)).kind, 'more', `${at}`)
      assert.equal(readRequestHead(Buffer.from(text), at).kind, 'head', `${at}`)
    }
  })

  test('may have exactly 64 KiB and not more', () => {
    const head = (size: number): string => {
      const start = 'GET http://a/ HTTP/1.1\r\nHost: a\r\nX: '
      return `${start}${'x'.repeat(size - start.length - 4)}\r\n\r\n`
    }
    assert.equal(read(head(HEAD_MAX)).kind, 'head')
    for (const text of [head(HEAD_MAX + 1), head(HEAD_MAX + 100).slice(0, HEAD_MAX), head(1_000_000)]) {
      const result = read(text)
      assert.equal(result.kind === 'bad' && result.status, 431)
    }
  })

  test('is rejected early if it cannot become valid', () => {
    for (const text of ['\x16\x03', ' GET', 'GET /\n', 'GET /\r\n', 'GET / HTTP/3.0\r\n', 'GET / HTTP/1.1\r\nA: b\n'])
      assert.equal(read(text).kind, 'bad', JSON.stringify(text))
  })

  test('made of random parts never throws, and is accepted only if a second parser agrees', () => {
    const odd = fc.constantFrom('\r', '\n', '\0', '\t', ' ', '\x0b', '\x7f', '\x80', '\xff', ':', ',', ';', '"', '\r\n')
    const name = fc.constantFrom(
      'Host',
      'host',
      'Content-Length',
      'CONTENT-LENGTH',
      'Transfer-Encoding',
      'transfer-encoding',
      'Connection',
      'Upgrade',
      'TE',
      'Expect',
      'X-A',
      'Content-Length ',
      ' X-B',
      '',
    )
    const value = fc.constantFrom(
      ...[
        'a',
        'a:80',
        '5',
        '0',
        '05',
        '5, 5',
        '+5',
        '5 ',
        '0x5',
        'chunked',
        'Chunked',
        'identity, chunked',
        'xchunked',
      ],
      ...[
        'close',
        'keep-alive, upgrade',
        'host',
        'X-A, content-length',
        'a b',
        '',
        '\tchunked',
        '99999999999999999999',
      ],
      ...['100-continue', 'websocket', 'trailers'],
    )
    const blank = fc.constantFrom(' ', ' ', ' ', '', '\t', '  ')
    const field = fc.tuple(name, blank, value).map(([n, b, v]) => `${n}:${b}${v}\r\n`)
    const line = fc.constantFrom(
      ...Array.from({ length: 6 }, () => 'GET http://a/ HTTP/1.1\r\n'),
      ...[
        'GET http://a/ HTTP/1.1\r\n',
        'GET http://a/ HTTP/1.1\r\n',
        'POST http://a/ HTTP/1.0\r\n',
        'GET  / HTTP/1.1\r\n',
      ],
      ...['GET / HTTP/1.2\r\n', 'GET /\r\n', '\r\nGET / HTTP/1.1\r\n', 'G@T / HTTP/1.1\r\n', 'PRI * HTTP/2.0\r\n'],
    )
    const host = fc.constantFrom('Host: a\r\n', 'Host: a\r\n', 'Host: a\r\n', '')
    const made = fc
      .tuple(line, host, fc.array(field, { maxLength: 3 }), fc.constantFrom('\r\n', '\r\n', '\r\n', '\r\n', '\n', ''))
      .map(([first, second, fields, end]) => `${first}${second}${fields.join('')}${end}`)
    const broken = fc.tuple(made, fc.nat(), fc.nat({ max: 2 }), odd).map(([text, at, cut, put]) => {
      const place = at % (text.length + 1)
      return text.slice(0, place) + put + text.slice(place + cut)
    })
    const anything = fc.string({ unit: 'binary', maxLength: 60 })
    let taken = 0
    const check = fc.property(
      fc.oneof({ arbitrary: made, weight: 5 }, { arbitrary: broken, weight: 5 }, { arbitrary: anything, weight: 1 }),
      (text) => {
        const result = read(text)
        if (result.kind !== 'head') return
        taken++
        assert.ok(isStrict(text), JSON.stringify(text))
        assert.ok(text.slice(0, result.end).endsWith('\r\n\r\n'))
      },
    )
    const tries = runs(5000, 20_000)
    fc.assert(check, { numRuns: tries })
    assert.ok(taken > tries / 20, `${taken} were taken`)
  })
})

suite('a response head', () => {
  test('is parsed with or without a reason phrase', () => {
    for (const [line, reason] of [
      ['HTTP/1.1 200 All right', 'All right'],
      ['HTTP/1.1 200 ', ''],
      ['HTTP/1.0 200', ''],
    ]) {
      const result = readResponseHead(Buffer.from(`${line}\r\n\r\n`), 'GET')
      assert.equal(result.kind === 'head' && result.head.reason, reason)
    }
  })

  const readAnswer = (text: string, seen = 0) => readResponseHead(Buffer.from(text, 'latin1'), 'GET', seen)
  const fieldsOf = (text: string): string[] => {
    const result = readAnswer(text)
    assert.equal(result.kind, 'head', JSON.stringify(text))
    return result.head.fields.map(({ name, value }) => `${name}: ${value}`)
  }

  test('may use CRLF or LF, and ends at the first empty line', () => {
    for (const text of [
      'HTTP/1.1 200 OK\nA: 1\nB: 2\n\n',
      'HTTP/1.1 200 OK\r\nA: 1\nB: 2\r\n\n',
      'HTTP/1.1 200 OK\nA: 1\r\nB: 2\n\r\n',
    ]) {
      assert.deepEqual(fieldsOf(`${text}body\r\n\r\n`), ['A: 1', 'B: 2'])
      const result = readAnswer(`${text}body\n\n`)
      assert.equal(result.kind === 'head' && result.end, text.length)
      for (let at = 0; at < text.length; at++) {
        assert.equal(readAnswer(text.slice(0, at)).kind, 'more', `${at}`)
        assert.equal(readAnswer(text, at).kind, 'head', `${at}`)
      }
    }
  })

  test('is unfolded', () => {
    assert.deepEqual(fieldsOf('HTTP/1.1 200 OK\r\nA: 1,\r\n\t 2\r\n \r\nB:\r\n 3\r\n\r\n'), ['A: 1, 2', 'B: 3'])
    assert.deepEqual(fieldsOf('HTTP/1.1 200 OK\nA: 1,\n 2\n\n'), ['A: 1, 2'])
  })

  test('is rejected with a fold after the status line, a bare carriage return, or a folded length that is two', () => {
    for (const text of [
      'HTTP/1.1 200 OK\r\n A: 1\r\n\r\n',
      'HTTP/1.1 200 OK\n A: 1\n\n',
      'HTTP/1.1 200 OK\r\nA: 1\rB: 2\r\n\r\n',
      'HTTP/1.1 200 OK\r\r\nA: 1\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 6\r\n\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n , gzip\r\n\r\n',
    ])
      assert.equal(readAnswer(text).kind, 'bad', JSON.stringify(text))
  })

  test('may have 64 KiB with either line end, and long whitespace is parsed fast', () => {
    for (const end of ['\r\n', '\n']) {
      const head = (size: number): string =>
        `HTTP/1.1 200 OK${end}X: ${'x'.repeat(size - 18 - 3 * end.length)}${end}${end}`
      assert.equal(head(HEAD_MAX).length, HEAD_MAX)
      assert.equal(readAnswer(head(HEAD_MAX)).kind, 'head')
      assert.equal(readAnswer(head(HEAD_MAX + 1)).kind, 'bad')
      assert.equal(readAnswer(head(HEAD_MAX + 100).slice(0, HEAD_MAX)).kind, 'bad')
      assert.deepEqual(fieldsOf(`HTTP/1.1 200 OK${end}X:${' '.repeat(60_000)}${end} y${end}${end}`), ['X: y'])
    }
  })

  test('is parsed the same with LF as with CRLF', () => {
    const text = fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]*$/)
    const lines = fc.array(fc.tuple(fc.constantFrom('A', 'Set-Cookie', 'Content-Length'), text), { maxLength: 4 })
    const ends = fc.infiniteStream(fc.constantFrom('\n', '\r\n'))
    fc.assert(
      fc.property(lines, ends, (fields, end) => {
        const made = (next: () => string): string =>
          ['HTTP/1.1 200 OK', ...fields.map(([name, value]) => `${name}: ${value}`), '']
            .map((line) => line + next())
            .join('')
        const [strict, loose] = [readAnswer(made(() => '\r\n')), readAnswer(made(() => end.next().value ?? '\n'))]
        assert.deepEqual({ ...loose, end: 0 }, { ...strict, end: 0 })
      }),
      { numRuns: 2000 },
    )
  })

  test('made of random parts never throws, and has one unambiguous end if accepted', () => {
    const piece = fc.constantFrom(
      ...[
        'HTTP/1.1 200 OK\r\n',
        'HTTP/1.0 304\r\n',
        'HTTP/1.1 099 x\r\n',
        'HTTP/1.1 ',
        '\r\n',
        '\n',
        '\r',
        ' ',
        '\0',
        'x',
      ],
      ...[
        'Content-Length: 5\r\n',
        'Content-Length: 6\r\n',
        'Transfer-Encoding: chunked\r\n',
        'Connection: a b\r\n',
        ':',
      ],
    )
    const made = fc.array(piece, { maxLength: 8 }).map((pieces) => `HTTP/1.1 200 OK\r\n${pieces.join('')}\r\n`)
    const other = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
    const check = fc.property(fc.oneof(made, other), (text) => {
      const result = readResponseHead(Buffer.from(text, 'latin1'), 'GET')
      if (result.kind !== 'head') return
      const framing = result.head.fields.filter(({ key }) => key === 'content-length' || key === 'transfer-encoding')
      assert.ok(framing.length < 2, JSON.stringify(text))
      for (const { name, value } of result.head.fields) assert.doesNotMatch(`${name}${value}`, /[\r\n\0]/)
      assert.match(text.slice(0, result.end), /\n\r?\n$/)
      assert.doesNotMatch(text.slice(0, result.end - 1), /\n\r?\n/)
    })
    fc.assert(check, { numRuns: runs(5000, 20_000) })
  })
})
