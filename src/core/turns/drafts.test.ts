import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { boundaryBefore, countCodePoints, DraftPiece, indexOfCodePoint, splitDraftPiece } from './drafts.ts'

const PIECE: DraftPiece = {
  ...{ turn: 't', fence: 1, part: 0, jid: 'web:main', topic: '', folder: 'main', rounds: ['t'] },
  ...{ from: 7, text: '', state: 'complete' },
}
const EMPTY_BYTES = Buffer.byteLength(JSON.stringify(PIECE))

/** Also with characters that JSON writes longer, and with halves of surrogate pairs. */
const text = fc.array(fc.constantFrom('a', '界', '😀', '"', '\n', '\u0001', '\ud83d', '\ude00'), { maxLength: 200 })

test('a piece of a draft is split so that each part fits, and the parts are the piece', () => {
  const property = fc.property(text, fc.integer({ min: 14, max: 400 }), (words, room) => {
    const piece = { ...PIECE, text: words.join('') }
    const parts = splitDraftPiece(piece, EMPTY_BYTES + room)
    assert.equal(parts.map((part) => part.text).join(''), piece.text)
    let from = piece.from
    for (const part of parts) {
      assert.equal(part.from, from)
      assert.ok(Buffer.byteLength(JSON.stringify(part)) <= EMPTY_BYTES + room)
      assert.deepEqual(DraftPiece.parse(JSON.parse(JSON.stringify(part))), part)
      from += countCodePoints(part.text)
    }
    assert.deepEqual(
      parts.map(({ state }) => state),
      [...parts.slice(1).map(() => 'open'), 'complete'],
    )
  })
  fc.assert(property, { numRuns: runs(200, 2000), examples: [[['a'.repeat(4000)], 14]] })
})

test('a piece that is exactly as long as allowed is not split', () => {
  const piece = { ...PIECE, text: 'x'.repeat(100) }
  assert.equal(splitDraftPiece(piece, EMPTY_BYTES + 100).length, 1)
  assert.equal(splitDraftPiece(piece, EMPTY_BYTES + 99).length, 2)
})

test('code points are counted as by the iteration of strings', () => {
  fc.assert(
    fc.property(text, fc.nat(220), (words, number) => {
      const whole = words.join('')
      assert.equal(countCodePoints(whole), [...whole].length)
      assert.equal(indexOfCodePoint(whole, number), [...whole].slice(0, number).join('').length)
    }),
    { numRuns: runs(200, 2000) },
  )
})

test('a boundary is never inside of a surrogate pair', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((index) => boundaryBefore('a😀b', index)),
    [0, 1, 1, 3, 4],
  )
  // The other half may follow.
  assert.equal(boundaryBefore('a\ud83d', 2), 1)
})
