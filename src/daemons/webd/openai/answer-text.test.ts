import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { AnswerText } from './answer-text.ts'

type Step = readonly ['draft', string, number] | readonly ['dropped'] | readonly ['message' | 'status', string]

/** What is sent for these events, piece by piece. */
function sent(steps: readonly Step[]): string[] {
  const text = new AnswerText((id) => `/files/${id}`)
  const pieces = steps.map((step) => {
    if (step[0] === 'draft') return text.takeDraft({ text: step[1], from: step[2] })
    if (step[0] === 'dropped') return text.takeDraft({ text: '', from: 0, done: true })
    return text.takeFrame({ kind: step[0], content: step[1] })
  })
  assert.equal(pieces.join(''), text.sent)
  return pieces
}

const TABLE: Record<string, readonly [steps: readonly Step[], pieces: readonly string[]]> = {
  'a message without a draft is sent whole': [[['message', 'hi']], ['hi']],
  'messages are separated by a blank line': [
    [
      ['message', 'one'],
      ['message', 'two'],
    ],
    ['one', '\n\ntwo'],
  ],
  'a draft is sent as it grows, and of its message only the rest': [
    [
      ['draft', 'Hel', 0],
      ['draft', 'lo ', 3],
      ['message', 'Hello world'],
    ],
    ['Hel', 'lo', ' world'],
  ],
  'white space around a draft is sent only between its words': [
    [
      ['draft', '\n ', 0],
      ['draft', ' a', 2],
      ['draft', ' ', 4],
      ['draft', 'b\n', 5],
      ['message', 'a b'],
    ],
    ['', 'a', '', ' b', ''],
  ],
  'a draft that is replaced stays, and the new text follows': [
    [
      ['draft', 'Let me look.', 0],
      ['draft', 'It is 4.', 0],
      ['message', 'It is 4.'],
    ],
    ['Let me look.', '\n\nIt is 4.', ''],
  ],
  'a dropped draft stays, and another message follows': [
    [['draft', 'Let me look.', 0], ['dropped'], ['message', 'It is 4.']],
    ['Let me look.', '', '\n\nIt is 4.'],
  ],
  'a message that differs from its draft follows it': [
    [
      ['draft', 'one', 0],
      ['message', 'two'],
      ['draft', 'three', 0],
      ['message', 'three!'],
    ],
    ['one', '\n\ntwo', '\n\nthree', '!'],
  ],
  'a message may come after the draft of the next one': [
    [
      ['draft', 'one', 0],
      ['draft', 'two', 0],
      ['message', 'one'],
      ['draft', ' and more', 3],
      ['message', 'two and more'],
    ],
    ['one', '\n\ntwo', '', ' and more', ''],
  ],
  'a draft that other text follows is not continued': [
    [['draft', 'one', 0], ['dropped'], ['message', 'x'], ['message', 'one more']],
    ['one', '', '\n\nx', '\n\none more'],
  ],
  'the offset of a draft counts code points': [
    [
      ['draft', '👍', 0],
      ['draft', '👍', 1],
      ['message', '👍👍'],
    ],
    ['👍', '👍', ''],
  ],
  'the status of an agent is no text': [[['status', 'reading']], ['']],
}

for (const [name, [steps, pieces]] of Object.entries(TABLE)) test(name, () => assert.deepEqual(sent(steps), pieces))

test('files are links, whose text cannot end the link', () => {
  const text = new AnswerText((id) => `https://svc.example/files/${id}`)
  const files = [{ id: 'a', name: 'x](http://evil).png' }]
  assert.equal(text.takeDraft({ text: 'See', from: 0 }), 'See')
  const added = text.takeFrame({ kind: 'message', content: 'See', files })
  assert.equal(added, '\n\n[x\\](http://evil).png](https://svc.example/files/a)')
  assert.equal(text.takeFrame({ kind: 'message', content: '', files }).startsWith('\n\n['), true)
})

test('however a draft is cut into pieces, the answer is the trimmed message', () => {
  const pieces = fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(pieces, (all) => {
      let from = 0
      const steps: Step[] = all.map((piece) => {
        const at = from
        from += [...piece].length
        return ['draft', piece, at]
      })
      const message = all.join('')
      assert.equal(sent([...steps, ['message', message]]).join(''), message.trim())
    }),
  )
})

test('an answer keeps its first 4 MiB, in whole characters', () => {
  const max = 4 * 1024 * 1024
  const text = new AnswerText((id) => id)
  const message = (content: string): string => text.takeFrame({ kind: 'message', content })
  assert.equal(message('x'.repeat(max - 5)).length, max - 5)
  assert.equal(message('abc'), '\n\nabc')
  assert.deepEqual([text.sent.length, text.isCut], [max, false])
  assert.deepEqual([message('more'), text.sent.length, text.isCut], ['', max, true])
  const cut = new AnswerText((id) => id)
  const shown = cut.takeFrame({ kind: 'message', content: `${'x'.repeat(max - 1)}😀 and more` })
  assert.deepEqual([shown.length, cut.isCut], [max - 1, true])
  assert.equal(cut.takeDraft({ text: 'later', from: 0 }), '')
})
