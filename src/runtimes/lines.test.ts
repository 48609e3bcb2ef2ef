import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { Lines } from './lines.ts'

function cut(pieces: readonly string[], max?: number): string[] {
  const found: string[] = []
  const lines = new Lines((line) => found.push(line), max)
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
})
