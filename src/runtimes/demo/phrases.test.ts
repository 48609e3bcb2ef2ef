import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parsePhrase } from './phrases.ts'

suite('the phrase parser', () => {
  test('parses the known phrases', () => {
    for (const [message, request] of [
      ['help', { kind: 'help' }],
      [' Help! ', { kind: 'help' }],
      ['?', { kind: 'help' }],
      ['links', { kind: 'links' }],
      ['tasks', { kind: 'tasks' }],
      ['notes', { kind: 'notes' }],
      ['Who am I?', { kind: 'who' }],
      ['who are you', { kind: 'who' }],
      ['remind me in 2m to drink water', { kind: 'remind', ms: 120_000, text: 'drink water' }],
      ['Remind me in an hour and 5 minutes that it rains.', { kind: 'remind', ms: 3_900_000, text: 'it rains.' }],
      ['remind me in 1.5h tea', { kind: 'remind', ms: 5_400_000, text: 'tea' }],
      ['Reminder: drink water', { kind: 'reminder', text: 'drink water' }],
      ['find "black tea" OR milk', { kind: 'find', text: '"black tea" OR milk' }],
      ['hook github', { kind: 'hook', text: 'github' }],
      ['note buy milk', { kind: 'note', text: 'buy milk' }],
      ['note a\nb', { kind: 'note', text: 'a\nb' }],
      ['spend 5 cents', { kind: 'spend', cents: 5 }],
      ['spend 1 cent', { kind: 'spend', cents: 1 }],
      ['spend $1.05', { kind: 'spend', cents: 105 }],
      ['ask team/b, how are you?', { kind: 'delegate', folder: 'team/b', text: 'how are you?' }],
    ] as const)
      assert.deepEqual(parsePhrase(message), request, message)
  })

  test('treats all other messages as talk', () => {
    for (const text of [
      '',
      'hello',
      'remind me to eat',
      'remind me in 0s to eat',
      'spend 0 cents',
      'hook',
      'find',
      'helpful',
    ])
      assert.deepEqual(parsePhrase(text), { kind: 'talk', text })
  })

  test('accepts any message', () => {
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
        const request = parsePhrase(words + rest)
        if (request.kind === 'remind')
          assert.ok(Number.isSafeInteger(request.ms) && request.ms > 0 && request.text !== '')
        if (request.kind === 'spend') assert.ok(Number.isSafeInteger(request.cents) && request.cents > 0)
        assert.equal(typeof request.kind, 'string')
      }),
    )
  })
})
