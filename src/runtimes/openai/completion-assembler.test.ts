import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { type CompletionMessage, parseRetryAfter } from './completion.ts'
import { CompletionAssembler } from './completion-assembler.ts'
import { trimMessages } from './transcript.ts'

const pieces = (text: string, cuts: readonly number[]): string[] => {
  const offsets = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b)
  return [0, ...offsets].map((from, at) => text.slice(from, offsets[at]))
}

suite('the completion assembler', () => {
  test('joins text and tool calls for any interleaving of deltas', () => {
    const cuts = fc.array(fc.nat(50), { maxLength: 5 })
    fc.assert(
      fc.property(fc.string(), cuts, fc.array(fc.tuple(fc.string(), cuts), { maxLength: 3 }), (words, at, calls) => {
        const assembly = new CompletionAssembler()
        const push = (delta: object): void => assembly.push(JSON.stringify({ choices: [{ delta }] }))
        for (const [index] of calls.entries())
          push({ tool_calls: [{ index, id: `c${index}`, function: { name: `f${index}` } }] })
        const streams = calls.map(([args, where]) => pieces(args, where))
        const textPieces = pieces(words, at)
        for (let round = 0; round < 7; round++) {
          if (textPieces[round] !== undefined) push({ content: textPieces[round] })
          for (const [index, stream] of streams.entries())
            if (stream[round] !== undefined) push({ tool_calls: [{ index, function: { arguments: stream[round] } }] })
        }
        assert.ok(!assembly.isDone)
        assembly.push('[DONE]')
        assert.ok(assembly.isDone)
        const { text, calls: found } = assembly.completion()
        assert.equal(text, words)
        assert.deepEqual(
          found.map(({ id, function: { name, arguments: args } }) => [id, name, args]),
          calls.map(([args], index) => [`c${index}`, `f${index}`, args || '{}']),
        )
      }),
    )
  })

  test('accepts any chunks', () => {
    const shape = fc.record(
      {
        choices: fc.oneof(
          fc.anything(),
          fc.array(fc.record({ delta: fc.oneof(fc.anything(), fc.record({ tool_calls: fc.array(fc.anything()) })) })),
        ),
        usage: fc.anything(),
        error: fc.anything(),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.string(),
            shape.map((chunk) => JSON.stringify(chunk)),
          ),
        ),
        (chunks) => {
          const assembly = new CompletionAssembler()
          for (const chunk of chunks) assembly.push(chunk)
          const { inputTokens: input, outputTokens: output } = assembly.completion()
          assert.ok(Number.isSafeInteger(input) && Number.isSafeInteger(output))
        },
      ),
    )
  })
})

test('parses Retry-After as seconds or a date', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  assert.equal(parseRetryAfter('2', now), 2000)
  assert.equal(parseRetryAfter('0.5', now), 500)
  assert.equal(parseRetryAfter('Thu, 01 Jan 2026 00:00:03 GMT', now), 3000)
  assert.equal(parseRetryAfter('Thu, 01 Jan 2025 00:00:03 GMT', now), 0)
  for (const value of [null, '', 'soon', '-']) assert.equal(parseRetryAfter(value, now), undefined)
})

test('drops whole turns of a session that is too long, oldest first, but never the last', () => {
  const turn = (text: string): CompletionMessage[] => [
    { role: 'user', content: text },
    { role: 'assistant', content: null, tool_calls: [] },
    { role: 'tool', tool_call_id: 'c', content: 'x' },
    { role: 'assistant', content: text },
  ]
  const messages = ['a', 'b', 'c'].flatMap(turn)
  assert.deepEqual(trimMessages(messages), messages)
  const one = JSON.stringify(turn('c')).length
  assert.deepEqual(trimMessages(messages, one + 20), turn('c'))
  assert.deepEqual(trimMessages(messages, 0), turn('c'))
  assert.deepEqual(trimMessages([], 0), [])
})
