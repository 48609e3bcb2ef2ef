import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { roundCosts } from '../../core/turns/costs.ts'
import type { StartedCall } from '../runtime.ts'
import { StreamJsonReader } from './stream-json.ts'

suite('the stream-json reader', () => {
  test('returns the last result and the last session', () => {
    const stream = new StreamJsonReader()
    stream.push('{"type":"system","session_id":"a","model":"m"}')
    assert.ok(!stream.isDone)
    stream.push('{"type":"result","subtype":"success","result":"r","session_id":"b","usage":{"input_tokens":3}}')
    assert.deepEqual([stream.isDone, stream.isError, stream.text, stream.sessionId], [true, false, 'r', 'b'])
    assert.deepEqual(stream.used, [{ model: 'm', input: 3, output: 0, cents: 0 }])
  })

  test('adds the text of the last message of the main agent to the draft', () => {
    let draft = ''
    const add = (text: string): void => {
      draft += text
    }
    const restart = (): void => {
      draft = ''
    }
    const stream = new StreamJsonReader(undefined, { add, restart })
    const push = (event: object, parent: string | null = null): boolean =>
      stream.push(JSON.stringify({ type: 'stream_event', event, parent_tool_use_id: parent }))
    const text = (words: unknown) => ({ type: 'content_block_delta', delta: { type: 'text_delta', text: words } })
    push({ type: 'message_start' })
    push(text('Let me '))
    push({ type: 'content_block_delta', delta: { type: 'input_json_delta', partial_json: '{' } })
    push(text('see'))
    assert.equal(draft, 'Let me see')
    push({ type: 'message_start' })
    assert.ok(!push(text('Found')))
    push(text('an agent below'), 'toolu_1')
    push({ type: 'message_start' }, 'toolu_1')
    push(text({ toString: 1 }))
    assert.equal(draft, 'Found')
  })

  test('shows errors and subtypes that are not text as JSON', () => {
    const textOf = (event: object): string => {
      const stream = new StreamJsonReader()
      stream.push(JSON.stringify({ type: 'result', ...event }))
      return stream.text
    }
    assert.equal(textOf({ errors: ['full', { toString: [] }, null] }), 'full; {"toString":[]}; null')
    assert.equal(textOf({ is_error: true, subtype: { toString: 1 } }), '{"toString":1}')
  })

  test('accepts any lines, and costs are whole and not negative', () => {
    const event = fc.record(
      {
        type: fc.constantFrom('system', 'assistant', 'result', 'other'),
        message: fc.record({ id: fc.string(), model: fc.string(), usage: fc.anything() }),
        subtype: fc.oneof(fc.constant('api_retry'), fc.anything()),
        error_status: fc.oneof(fc.constantFrom(401, 403, 529), fc.anything()),
        error: fc.anything(),
        is_error: fc.anything(),
        result: fc.anything(),
        errors: fc.anything(),
        session_id: fc.anything(),
        model: fc.anything(),
        usage: fc.anything(),
        total_cost_usd: fc.anything(),
        modelUsage: fc.oneof(fc.anything(), fc.dictionary(fc.string(), fc.record({ costUSD: fc.anything() }))),
      },
      { requiredKeys: ['type'] },
    )
    const line = fc.oneof(
      fc.string(),
      event.map((value) => JSON.stringify(value)),
    )
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const stream = new StreamJsonReader()
        for (const each of lines) stream.push(each)
        assert.equal(typeof stream.text, 'string')
        for (const { cost_cents, input_tokens } of roundCosts(stream.used))
          assert.ok(Number.isInteger(cost_cents) && cost_cents >= 0 && Number.isInteger(input_tokens))
      }),
    )
  })

  test('estimates the cost of a client that has reported none, by its messages, and takes its own figure as it is', () => {
    const stream = new StreamJsonReader((model) =>
      model === 'm' ? { input: 300, cached: 30, output: 1500 } : undefined,
    )
    const say = (id: string, usage: object, model = 'm'): boolean =>
      stream.push(JSON.stringify({ type: 'assistant', message: { id, model, usage } }))
    const usage = { input_tokens: 1000, cache_read_input_tokens: 10_000, cache_creation_input_tokens: 2000 }
    assert.equal(say('1', { ...usage, output_tokens: 1 }), true)
    // The client prints a message once for each of its parts.
    say('1', { ...usage, output_tokens: 1000 })
    const used = (): unknown[] =>
      roundCosts(stream.used).map(({ model, input_tokens, microcents }) => [model, input_tokens, microcents])
    assert.deepEqual(used(), [['m', 13_000, 3500 * 300 + 10_000 * 30 + 1000 * 1500]])
    say('2', { input_tokens: 1000 })
    say('3', { input_tokens: 7 }, 'unlisted')
    assert.deepEqual(used(), [
      ['m', 14_000, 3_150_000],
      ['unlisted', 7, 0],
    ])
    assert.equal(stream.push('{"type":"system"}'), false)
    stream.push('{"type":"result","modelUsage":{"m":{"costUSD":0.01,"inputTokens":1,"outputTokens":2}}}')
    assert.deepEqual(stream.used, [{ model: 'm', input: 1, output: 2, cents: 1 }])
  })

  test('caps absurd amounts', () => {
    const stream = new StreamJsonReader()
    stream.push('{"type":"result","modelUsage":{"m":{"costUSD":1.7976931348623156e+300,"inputTokens":1e300}}}')
    assert.deepEqual(stream.used, [{ model: 'm', input: 1e12, output: 0, cents: 1e14 }])
    const [rounded] = roundCosts(stream.used)
    assert.deepEqual([rounded?.cost_cents, Number.isSafeInteger(rounded?.microcents)], [1e9, true])
  })

  test('rounds the sum of all models up once', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1e6, noNaN: true })), (amounts) => {
        const used = amounts.map((cents) => ({ model: 'm', input: 0, output: 0, cents }))
        const total = roundCosts(used).reduce((sum, { cost_cents }) => sum + cost_cents, 0)
        const exact = amounts.reduce((sum, cents) => sum + cents, 0)
        assert.ok(total >= exact - 1e-3 && total < exact + 1)
      }),
    )
    assert.deepEqual(roundCosts([{ model: 'm', input: 1, output: 1, cents: 0.07 * 100 }])[0]?.cost_cents, 7)
  })
})

suite('the calls of tools of the client itself', () => {
  type Shown = [tool: string, phrase: string | undefined, state: string]
  const open = () => {
    const shown: Shown[] = []
    const start = ({ tool, phrase }: StartedCall) => {
      const call: Shown = [tool, phrase, 'running']
      shown.push(call)
      return (isFailed: boolean): void => {
        call[2] = isFailed ? 'failed' : 'ok'
      }
    }
    const stream = new StreamJsonReader(undefined, undefined, { start })
    const push = (type: string, ...content: readonly object[]) =>
      stream.push(JSON.stringify({ type, message: { content } }))
    return { shown, stream, push }
  }
  const use = (id: string, name: string) => ({ type: 'tool_use', id, name, input: { a: 1 } })
  const result = (id: string, isError?: boolean) => ({ type: 'tool_result', tool_use_id: id, is_error: isError })

  test('start with a message of the model and end with their results', () => {
    const { shown, push } = open()
    push('assistant', { type: 'text', text: 'Let me see' }, use('1', 'Read'), use('2', 'Bash'), use('1', 'Read'))
    push('user', result('2', true), result('unknown'))
    assert.deepEqual(shown, [
      ['Read', 'Reading a file', 'running'],
      ['Bash', 'Running a command', 'failed'],
    ])
    push('user', result('1'))
    assert.equal(shown[0]?.[2], 'ok')
  })

  test('have ended when the model goes on, even if a result was too long to be read', () => {
    const { shown, stream, push } = open()
    push('assistant', use('1', 'Read'), use('2', 'Surprise'))
    stream.push(JSON.stringify({ type: 'stream_event', event: { type: 'message_start' }, parent_tool_use_id: '2' }))
    assert.equal(shown[0]?.[2], 'running')
    stream.push(JSON.stringify({ type: 'stream_event', event: { type: 'message_start' }, parent_tool_use_id: null }))
    assert.deepEqual(shown, [
      ['Read', 'Reading a file', 'ok'],
      ['Surprise', undefined, 'ok'],
    ])
  })

  test('are not those of svc, which its socket reports, and malformed ones are ignored', () => {
    const { shown, push } = open()
    push(
      'assistant',
      use('1', 'mcp__svc__send'),
      { type: 'tool_use', id: 2, name: 'Read' },
      { type: 'tool_use', id: '3' },
    )
    push('user', { type: 'tool_result' })
    assert.deepEqual(shown, [])
  })
})
