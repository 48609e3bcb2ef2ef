import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parsePhrase } from './phrases.ts'

suite('the language of the demo', () => {
  test('knows a few phrases', () => {
    for (const [said, ask] of [
      ['help', { ask: 'help' }],
      [' Help! ', { ask: 'help' }],
      ['?', { ask: 'help' }],
      ['links', { ask: 'links' }],
      ['tasks', { ask: 'tasks' }],
      ['notes', { ask: 'notes' }],
      ['Who am I?', { ask: 'who' }],
      ['who are you', { ask: 'who' }],
      ['remind me in 2m to drink water', { ask: 'remind', ms: 120_000, text: 'drink water' }],
      ['Remind me in an hour and 5 minutes that it rains.', { ask: 'remind', ms: 3_900_000, text: 'it rains.' }],
      ['remind me in 1.5h tea', { ask: 'remind', ms: 5_400_000, text: 'tea' }],
      ['Reminder: drink water', { ask: 'reminder', text: 'drink water' }],
      ['find "black tea" OR milk', { ask: 'find', text: '"black tea" OR milk' }],
      ['hook github', { ask: 'hook', text: 'github' }],
      ['note buy milk', { ask: 'note', text: 'buy milk' }],
      ['note a\nb', { ask: 'note', text: 'a\nb' }],
      ['spend 5 cents', { ask: 'spend', cents: 5 }],
      ['spend 1 cent', { ask: 'spend', cents: 1 }],
      ['spend $1.05', { ask: 'spend', cents: 105 }],
      ['ask team/b, how are you?', { ask: 'delegate', folder: 'team/b', text: 'how are you?' }],
    ] as const)
      assert.deepEqual(parsePhrase(said), ask, said)
  })

  test('all else is talk', () => {
    for (const said of [
      '',
      'hello',
      'remind me to eat',
      'remind me in 0s to eat',
      'spend 0 cents',
      'hook',
      'find',
      'helpful',
    ])
      assert.deepEqual(parsePhrase(said), { ask: 'talk', text: said })
  })

  test('whatever is said, it is an ask', () => {
    const start = fc.constantFrom(
      '',
      'remind me in ',
      'remind me in 2m ',
      'find ',
      'ask a ',
      'spend ',
      'note ',
      'hook ',
    )
    fc.assert(
      fc.property(start, fc.string({ unit: 'binary' }), (words, rest) => {
        const read = parsePhrase(words + rest)
        if (read.ask === 'remind') assert.ok(Number.isSafeInteger(read.ms) && read.ms > 0 && read.text !== '')
        if (read.ask === 'spend') assert.ok(Number.isSafeInteger(read.cents) && read.cents > 0)
        assert.equal(typeof read.ask, 'string')
      }),
    )
  })
})
