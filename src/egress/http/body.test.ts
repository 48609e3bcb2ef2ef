import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { type BodyReader, openBody } from './body.ts'
import type { HttpMessageFraming } from './framing.ts'

/** Feeds the bytes split at these offsets; returns the content and what follows the body. */
function feed(
  framing: HttpMessageFraming,
  text: string,
  cuts: readonly number[],
): { body: string; rest: string; reader: BodyReader } {
  const reader = openBody(framing)
  let [body, rest] = ['', '']
  const places = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b)
  for (const [at, start] of [0, ...places].entries()) {
    const piece = Buffer.from(text.slice(start, places[at] ?? text.length), 'latin1')
    const pairs: number[] = []
    const end = reader.read(piece, 0, pairs)
    for (let pair = 0; pair < pairs.length; pair += 2) body += piece.toString('latin1', pairs[pair], pairs[pair + 1])
    if (reader.fault === undefined) rest += piece.toString('latin1', end)
  }
  return { body, rest, reader }
}

const CHUNKED: HttpMessageFraming = { kind: 'chunked' }

suite('a body', () => {
  test('with a length ends after it, however it is split', () => {
    const check = fc.property(fc.nat({ max: 20 }), fc.array(fc.nat()), (length, cuts) => {
      const text = 'abcdefghijklmnopqrstuvwxyz'
      const { body, rest, reader } = feed({ kind: 'length', length }, text, cuts)
      assert.equal(body, text.slice(0, length))
      assert.equal(rest, text.slice(length))
      assert.equal(reader.isDone, true)
    })
    fc.assert(check, { numRuns: 2000 })
  })

  test('in chunks yields content and trailers, however it is split', () => {
    const chunk = fc.tuple(
      fc.string({ unit: 'binary-ascii', minLength: 1 }),
      fc.constantFrom('', ';a', ';a="b c"', ';\t;'),
    )
    const check = fc.property(fc.array(chunk), fc.array(fc.nat()), fc.boolean(), (chunks, cuts, hasTrailers) => {
      const encoded = chunks.map(([data, extension], at) => {
        const size = data.length.toString(16)
        return `${at % 2 ? size.toUpperCase() : `00${size}`}${extension}\r\n${data}\r\n`
      })
      const text = `${encoded.join('')}0\r\n${hasTrailers ? 'X-A: 1\r\nx-b: 2\r\n' : ''}\r\nGET /`
      const { body, rest, reader } = feed(CHUNKED, text, cuts)
      assert.equal(reader.fault, undefined)
      assert.equal(body, chunks.map(([data]) => data).join(''))
      assert.equal(rest, 'GET /')
      assert.equal(reader.trailers.length, hasTrailers ? 2 : 0)
    })
    fc.assert(check, { numRuns: 2000 })
  })

  test('in random chunks never throws, and is complete only if a second parser agrees', () => {
    const piece = fc.constantFrom(
      ...[
        '0\r\n\r\n',
        '1\r\na\r\n',
        'a\r\n',
        '2;x\r\nab\r\n',
        '0',
        '\r\n',
        '\r',
        '\n',
        ' ',
        '-',
        '0x1',
        'fffffffffffffff',
      ],
      ...[';', 'X: y\r\n', '3\r\nabc', '\0', '+1', 'G', '1\nab'],
    )
    const strict =
      /^(?:(?!0+[\r;])[0-9A-Fa-f]+(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n[\s\S]*?\r\n)*0+(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n(?:[\w-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n/
    let whole = 0
    const check = fc.property(
      fc.array(piece, { maxLength: 7 }),
      fc.array(fc.nat(), { maxLength: 3 }),
      (pieces, cuts) => {
        const text = pieces.join('')
        const { reader, rest } = feed(CHUNKED, text, cuts)
        if (!reader.isDone) return
        whole++
        assert.equal(reader.fault, undefined)
        assert.match(text.slice(0, text.length - rest.length), strict)
      },
    )
    const tries = runs(5000, 20_000)
    fc.assert(check, { numRuns: tries })
    assert.ok(whole > tries / 100, `${whole} were whole`)
  })
})
