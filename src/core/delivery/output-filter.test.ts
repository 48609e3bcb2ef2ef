import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { DraftFilter, filterOutput } from './output-filter.ts'

const TEXTS: Record<string, [text: string, expected: string, statuses?: string[]]> = {
  'keeps plain prose unchanged': ['Hello,\n\n  a list:\n- one ', 'Hello,\n\n  a list:\n- one '],
  'removes an internal block': ['<internal>secret</internal>Hello', 'Hello'],
  'removes a thought': ['Yes. <think>is it?</think>', 'Yes.'],
  'removes a thought with the thoughts nested in it': ['<think>a<think>b</think>c</think>Done', 'Done'],
  'removes an internal block with a thought nested in it': ['<internal>a<think>b</think>c</internal>Done', 'Done'],
  'removes the rest of the text after an unclosed thought': ['Done. <think>and now', 'Done.'],
  'removes the rest of the text after an unclosed internal block': ['<internal>all of it', ''],
  'closes an unclosed nested thought with its block': ['<internal>a<think>b</internal>Done', 'Done'],
  'removes a closing tag without an opening tag': ['Done</think>.', 'Done.'],
  'accepts attributes and capitals in tags': ['<Think kind="x">no</THINK>Yes', 'Yes'],
  'separates a status from the prose': ['<status>reading</status>Done', 'Done', ['reading']],
  'keeps the order of statuses': ['<status>a</status>b<status>c</status>', 'b', ['a', 'c']],
  'ends an unclosed status at the end of its line': ['<status>reading\nDone', 'Done', ['reading']],
  'reports an unclosed status once, even if another follows on its line': [
    '<status>a <status>b\nDone',
    'Done',
    ['a b'],
  ],
  'removes a thought within a status': ['<status>a<think>b</think>c</status>', '', ['ac']],
  'removes a status within a thought': ['<think><status>a</status></think>Done', 'Done'],
  'drops an empty status': ['<status> </status>Done', 'Done'],
  'keeps other tags': ['<thinker> and <b>bold</b>', '<thinker> and <b>bold</b>'],
  'drops whitespace': [' \n ', ''],
  'drops filler': ['No response requested.', ''],
  'drops filler with markup and punctuation': ['*(Nothing further to add!)*', ''],
  'drops filler after a thought': ['<think>hm</think>\nAcknowledged.', ''],
  'keeps filler words that are part of a longer text': [
    'Acknowledged. I will do it today.',
    'Acknowledged. I will do it today.',
  ],
  'keeps a text without letters': ['👍', '👍'],
}
for (const [behaviour, [text, expected, statuses = []]] of Object.entries(TEXTS)) {
  test(`output filter: ${behaviour}`, () => assert.deepEqual(filterOutput(text), { text: expected, statuses }))
}

const Block: fc.Arbitrary<string> = fc.letrec<{ block: string }>((tie) => ({
  block: fc
    .tuple(
      fc.constantFrom('think', 'internal', 'thinking'),
      fc.array(fc.oneof({ depthSize: 'small' }, fc.stringMatching(/^[a-z ]*$/), tie('block')), { maxLength: 3 }),
    )
    .map(([name, inner]) => `<${name}>${inner.join('')}</${name}>`),
})).block

test('output filter: keeps exactly the text outside of all blocks, however they are nested', () => {
  const piece = fc.record({ prose: fc.stringMatching(/^[a-y 0-9\n]*$/), hidden: Block })
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
      const text = pieces.map(({ prose, hidden }) => prose + hidden).join('')
      const expected = pieces.map(({ prose }) => prose).join('')
      const { text: found } = filterOutput(text)
      assert.equal(found.trim(), expected.trim())
    }),
  )
})

test('output filter: takes linear time for any text and never throws', () => {
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

/** What a draft shows after each piece. */
function draftsOf(pieces: readonly string[]): string[] {
  const filter = new DraftFilter()
  let shown = ''
  return pieces.map((piece) => {
    shown += filter.push(piece)
    return shown
  })
}

const DRAFTS: Record<string, [pieces: readonly string[], shown: readonly string[]]> = {
  'shows prose as it is written': [
    ['Hel', 'lo, ', 'you'],
    ['Hel', 'Hello,', 'Hello, you'],
  ],
  'holds back what may become a tag': [
    ['So <', 'thin', 'k>b', '</think> c'],
    ['So', 'So', 'So', 'So  c'],
  ],
  'shows what has not become a tag': [
    ['So <', 'b', '> c'],
    ['So', 'So <b', 'So <b> c'],
  ],
  'holds back a block until it is closed': [
    ['<think>one', ' two</think>', 'done'],
    ['', '', 'done'],
  ],
  'holds back a status whose end may follow': [
    ['now <status>x\n', 'y', '</status> z'],
    ['now', 'now', 'now  z'],
  ],
  'holds back what may become filler': [
    ['No ', 'response', ' from them'],
    ['', '', 'No response from them'],
  ],
  'shows nothing of filler': [
    ['Acknow', 'ledged', '.'],
    ['', '', ''],
  ],
}
for (const [behaviour, [pieces, shown]] of Object.entries(DRAFTS)) {
  test(`draft filter: ${behaviour}`, () => assert.deepEqual(draftsOf(pieces), shown))
}

test('draft filter: shows at most 200 characters late', () => {
  assert.deepEqual(draftsOf(['1'.repeat(200)]), [''])
  assert.deepEqual(draftsOf(['1'.repeat(201)]), ['1'.repeat(201)])
})

test('draft filter: takes linear time, whatever an agent writes in however small pieces', () => {
  const words = ['x', ' ', '<', '<think>', '</internal>', '<status>\n', '<think ', '\n<internal><think></think>']
  for (const start of ['', 'Hello', '<think>', 'No '])
    for (const word of words) {
      const pieces = (count: number): string[] => [start, ...Array(count).fill(word), '</think>']
      const filter = (all: readonly string[]): void => {
        const draft = new DraftFilter()
        for (const piece of all) draft.push(piece)
      }
      const factor = growth(500, pieces, filter)
      assert.ok(factor < LINEAR, `${JSON.stringify([start, word])}: ${factor.toFixed(0)}`)
    }
})

test('draft filter: keeps the spaces after words that may still be filler', () => {
  assert.deepEqual(draftsOf(['No', ' '.repeat(300), 'news']), ['', '', `No${' '.repeat(300)}news`])
})

test('draft filter: whatever the pieces are, each draft is the start of the final text', () => {
  const word = fc.constantFrom(
    ...['<think>', '</think>', '<internal a="b">', '</internal>', '<status>', '</status>', '<thinking', '<', '>', '</'],
    ...['status', ' ', '\n', 'a', 'No response ', 'needed', '.', 'i have nothing to add', '👍'],
  )
  fc.assert(
    fc.property(fc.array(word, { maxLength: 20 }), fc.array(fc.nat(60), { maxLength: 8 }), (words, cuts) => {
      const text = words.join('')
      const at = [0, ...cuts.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length]
      const pieces = at.slice(1).map((end, index) => text.slice(at[index], end))
      const final = filterOutput(text).text.trimStart()
      for (const draft of draftsOf(pieces))
        assert.ok(final.startsWith(draft), `${JSON.stringify([pieces, draft, final])}`)
    }),
    { numRuns: 2000 },
  )
})
