import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { filterOutput } from './output-filter.ts'

const TEXTS: Record<string, [text: string, said: string, statuses?: string[]]> = {
  'plain prose is said as it is': ['Hello,\n\n  a list:\n- one ', 'Hello,\n\n  a list:\n- one '],
  'what is internal is left out': ['<internal>secret</internal>Hello', 'Hello'],
  'a thought is left out': ['Yes. <think>is it?</think>', 'Yes.'],
  'a thought that ends late takes what is nested with it': ['<think>a<think>b</think>c</think>Done', 'Done'],
  'a thought within an internal block ends neither': ['<internal>a<think>b</think>c</internal>Done', 'Done'],
  'a thought that never ends swallows the rest': ['Done. <think>and now', 'Done.'],
  'an internal block that never ends swallows the rest': ['<internal>all of it', ''],
  'a nested thought that never ends is closed with its block': ['<internal>a<think>b</internal>Done', 'Done'],
  'an end without a beginning is no block': ['Done</think>.', 'Done.'],
  'tags may have attributes and capitals': ['<Think kind="x">no</THINK>Yes', 'Yes'],
  'a status is no prose': ['<status>reading</status>Done', 'Done', ['reading']],
  'several statuses keep their order': ['<status>a</status>b<status>c</status>', 'b', ['a', 'c']],
  'a status that never ends is the rest of its line': ['<status>reading\nDone', 'Done', ['reading']],
  'a status that never ends is told once, whatever follows': ['<status>a <status>b\nDone', 'Done', ['a b']],
  'a thought within a status is not shown': ['<status>a<think>b</think>c</status>', '', ['ac']],
  'a status within a thought is none': ['<think><status>a</status></think>Done', 'Done'],
  'an empty status is none': ['<status> </status>Done', 'Done'],
  'other tags are prose': ['<thinker> and <b>bold</b>', '<thinker> and <b>bold</b>'],
  'blanks alone say nothing': [' \n ', ''],
  'a filler is dropped': ['No response requested.', ''],
  'a filler in other clothes is dropped': ['*(Nothing further to add!)*', ''],
  'a filler after a thought is dropped': ['<think>hm</think>\nAcknowledged.', ''],
  'a filler within a sentence stays': ['Acknowledged. I will do it today.', 'Acknowledged. I will do it today.'],
  'a sign without letters is said': ['👍', '👍'],
}
for (const [sentence, [text, said, statuses = []]] of Object.entries(TEXTS)) {
  test(`output: ${sentence}`, () => assert.deepEqual(filterOutput(text), { text: said, statuses }))
}

const Block: fc.Arbitrary<string> = fc.letrec<{ block: string }>((tie) => ({
  block: fc
    .tuple(
      fc.constantFrom('think', 'internal', 'thinking'),
      fc.array(fc.oneof({ depthSize: 'small' }, fc.stringMatching(/^[a-z ]*$/), tie('block')), { maxLength: 3 }),
    )
    .map(([name, inner]) => `<${name}>${inner.join('')}</${name}>`),
})).block

test('output: exactly what stands outside of all blocks is said, however they are nested', () => {
  const piece = fc.record({ said: fc.stringMatching(/^[a-y 0-9\n]*$/), hidden: Block })
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
      const text = pieces.map(({ said, hidden }) => said + hidden).join('')
      const expected = pieces.map(({ said }) => said).join('')
      const { text: found } = filterOutput(text)
      assert.equal(found.trim(), expected.trim())
    }),
  )
})

test('output: any text is read in time that grows with its length alone, and without a throw', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('<think', '>', '<status>', '</status>', '</think>', 'x', '\n', ' ')),
      (parts) => {
        const { text, statuses } = filterOutput(parts.join(''))
        assert.ok(text.length + statuses.join('').length <= parts.join('').length)
      },
    ),
  )
  filterOutput('<think '.repeat(200_000))
  filterOutput('<status>\n'.repeat(100_000))
  filterOutput('<think>'.repeat(100_000))
})
