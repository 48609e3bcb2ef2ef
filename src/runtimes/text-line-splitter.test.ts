import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { TextLineSplitter } from './text-line-splitter.ts'

function cut(pieces: readonly string[], max?: number): string[] {
  const found: string[] = []
  const lines = new TextLineSplitter((line) => found.push(line), max)
  for (const piece of pieces) lines.push(piece)
  lines.end()
  return found
}

suite('a stream in lines', () => {
  test('gives each line once it is whole, and what is left at the end', () => {
    assert.deepEqual(cut(['a\nb', 'c\r\n', '\n', 'd']), ['a', 'bc', '', 'd'])
    assert.deepEqual(cut(['a\r', '\nb\n']), ['a', 'b'])
    assert.deepEqual(cut([]), [])
  })

  test('however it is cut, the lines are the same', () => {
    const piece = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '\r', 'é') })
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const whole = pieces.join('').split('\n')
        const last = whole.pop() ?? ''
        const expected = [...whole, ...(last === '' ? [] : [last])].map((line) => line.replace(/\r$/, ''))
        assert.deepEqual(cut(pieces), expected)
      }),
    )
  })

  test('a line that never ends is handed on in pieces, and nothing of it is lost', () => {
    const found = cut([`${'x'.repeat(25)}`, `${'y'.repeat(8)}\nz`], 10)
    assert.equal(found.join(''), `${'x'.repeat(25)}${'y'.repeat(8)}z`)
    assert.ok(found.every((line) => line.length <= 20))
  })

  test('a line at the limit is whole, and one beyond it is cut there', () => {
    assert.deepEqual(cut(['x'.repeat(10), '\n'], 10), ['x'.repeat(10)])
    assert.deepEqual(cut(['x'.repeat(11), '\n'], 10), ['x'.repeat(10), 'x'])
    assert.deepEqual(cut(['x'.repeat(20)], 10), ['x'.repeat(10), 'x'.repeat(10)])
  })

  test('a long line that comes in many chunks costs no more than its length', () => {
    const chunk = 'x'.repeat(65_536)
    const length = (chunks: number): number =>
      cut(Array.from({ length: chunks }, () => chunk)).reduce((sum, line) => sum + line.length, 0)
    // With a copy of the line for every chunk, this would move several gigabytes.
    assert.equal(length(2000), 2000 * chunk.length)
  })
})
