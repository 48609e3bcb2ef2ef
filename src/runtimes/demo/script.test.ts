import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parseScript } from './script.ts'

suite('the script parser', () => {
  test('parses a message in which every line starts with a slash command', () => {
    assert.deepEqual(parseScript('/status thinking\n\n/wait 1.5s\r\n/say  hello there \n/fail no'), [
      { do: 'status', text: 'thinking' },
      { do: 'wait', ms: 1500 },
      { do: 'say', text: 'hello there' },
      { do: 'fail', text: 'no' },
    ])
    assert.deepEqual(
      parseScript('/count 3'),
      [1, 2, 3].map((at) => ({ do: 'say', text: `${at}` })),
    )
    assert.deepEqual(parseScript('/fail'), [{ do: 'fail', text: 'the script failed on purpose' }])
    assert.deepEqual(parseScript('/silent'), [])
    assert.deepEqual(parseScript('/tool a.b {"c": [1]}\n/tool d\n/crash\n/hang\n/result r'), [
      { do: 'tool', name: 'a.b', args: { c: [1] } },
      { do: 'tool', name: 'd', args: {} },
      { do: 'crash' },
      { do: 'hang' },
      { do: 'result', text: 'r' },
    ])
  })

  test('returns undefined for other messages', () => {
    for (const text of ['', ' ', 'hello', '/hello', '/say a\nhello', ' /say a', '/sayings', '/', '//say'])
      assert.equal(parseScript(text), undefined, text)
  })

  test('returns an error message for an invalid line', () => {
    for (const text of [
      '/say',
      '/status ',
      '/wait',
      '/wait 2',
      '/wait 61s',
      '/count',
      '/count 2001',
      '/count -1',
      '/count 1 x',
      '/tool',
      '/tool 1',
      '/tool a [1]',
      '/tool a {',
      '/result',
    ])
      assert.equal(typeof parseScript(text), 'string', text)
    assert.equal(typeof parseScript(Array(2001).fill('/say a').join('\n')), 'string')
  })

  test('/count produces the requested number of messages within the requested length', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 3000 }), (count, max) => {
        const steps = parseScript(`/count ${count} ${max}`)
        assert.ok(Array.isArray(steps))
        assert.equal(steps.length, count)
        for (const [at, step] of steps.entries()) {
          assert.ok(step.do === 'say' && step.text.startsWith(`${at + 1}`))
          assert.ok(step.text.length <= max + 6)
        }
      }),
      { numRuns: 30 },
    )
  })

  test('accepts any text', () => {
    const word = fc.constantFrom('/say', '/status', '/wait', '/count', '/fail', '/silent', '/tool', '/tool a', '/x')
    const line = fc.oneof(
      fc.tuple(word, fc.string()).map(([start, rest]) => `${start} ${rest}`),
      fc.string(),
    )
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const steps = parseScript(lines.join('\n'))
        assert.ok(steps === undefined || typeof steps === 'string' || (Array.isArray(steps) && steps.length <= 2000))
      }),
    )
  })
})
