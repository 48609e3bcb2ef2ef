import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { TextLineSplitter } from './text-line-splitter.ts'

/** The lines and pieces, each with whether it is a piece. */
function splitWithPieces(pieces: readonly string[], max: number): (readonly [string, boolean])[] {
  const found: (readonly [string, boolean])[] = []
  const lines = new TextLineSplitter((line, isPiece) => found.push([line, isPiece]), max)
  for (const piece of pieces) lines.push(piece)
  lines.end()
  return found
}

function split(pieces: readonly string[], max?: number): string[] {
  const found: string[] = []
  const lines = new TextLineSplitter((line) => found.push(line), max)
  for (const piece of pieces) lines.push(piece)
  lines.end()
  return found
}

suite('the line splitter', () => {
  test('emits each complete line, and the rest at the end', () => {
    assert.deepEqual(split(['a\nb', 'c\r\n', '\n', 'd']), ['a', 'bc', '', 'd'])
    assert.deepEqual(split(['a\r', '\nb\n']), ['a', 'b'])
    assert.deepEqual(split([]), [])
  })

  test('emits the same lines for any chunking', () => {
    const piece = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '\r', 'é') })
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const whole = pieces.join('').split('\n')
        const last = whole.pop() ?? ''
        const expected = [...whole, ...(last === '' ? [] : [last])].map((line) => line.replace(/\r$/, ''))
        assert.deepEqual(split(pieces), expected)
      }),
    )
  })

  test('emits a line without an end in pieces and loses none of it', () => {
    const found = split([`${'x'.repeat(25)}`, `${'y'.repeat(8)}\nz`], 10)
    assert.equal(found.join(''), `${'x'.repeat(25)}${'y'.repeat(8)}z`)
    assert.ok(found.every((line) => line.length <= 10))
  })

  test('splits a line only if it is over the limit', () => {
    assert.deepEqual(split(['x'.repeat(10), '\n'], 10), ['x'.repeat(10)])
    assert.deepEqual(split(['x'.repeat(11), '\n'], 10), ['x'.repeat(10), 'x'])
    assert.deepEqual(split(['x'.repeat(20)], 10), ['x'.repeat(10), 'x'.repeat(10)])
  })

  test('tells a line at the limit from pieces of a longer one, for any chunking', () => {
    const expected = [
      ['x'.repeat(10), false],
      ['y'.repeat(10), true],
      ['y', true],
      ['z', false],
    ]
    const text = `${'x'.repeat(10)}\n${'y'.repeat(11)}\nz`
    fc.assert(
      fc.property(fc.array(fc.nat(text.length)), (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), text.length]
        const pieces = places.slice(1).map((end, at) => text.slice(places[at], end))
        assert.deepEqual(splitWithPieces(pieces, 10), expected)
      }),
    )
  })

  test('copies a long line of many chunks only once', () => {
    const chunk = 'x'.repeat(65_536)
    const length = (chunks: number): number =>
      split(Array.from({ length: chunks }, () => chunk)).reduce((sum, line) => sum + line.length, 0)
    // Copying the line for every chunk would move several gigabytes.
    assert.equal(length(2000), 2000 * chunk.length)
  })
})
