import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { formatToolCall } from './tool-call-line.ts'

const tool = { name: 'look', input: z.object({ name: z.string(), password: z.string().optional() }) }
const report = (text: string, args = {}) => ({
  ...{ tool, args, ms: 2.6 },
  result: { content: [{ type: 'text' as const, text }] },
})

test('a tool call is one line with its arguments, result and duration', () => {
  assert.equal(
    formatToolCall(report('a\nb  c', { name: 'x', password: 'p' })),
    '[tool] look {"name":"x","password":"<redacted:1 chars>"} ok in 3 ms: a b c',
  )
  const failed = { ...report('no'), result: { isError: true, content: [{ type: 'text' as const, text: 'no' }] } }
  assert.equal(formatToolCall(failed), '[tool] look {} failed in 3 ms: no')
  const image = { ...report(''), result: { content: [{ type: 'image' as const, data: '', mimeType: 'image/png' }] } }
  assert.equal(formatToolCall(image), '[tool] look {} ok in 3 ms: <image>')
})

test('a result of 500 characters is shown whole, and a longer one is cut', () => {
  assert.ok(formatToolCall(report('é'.repeat(500))).endsWith('é'.repeat(500)))
  assert.ok(formatToolCall(report('é'.repeat(501))).endsWith(`${'é'.repeat(500)}…`))
})

test('no credential is shown, wherever it is in a result', () => {
  const token = `${'Ab3-'.repeat(10)}xyA`
  for (let length = 1900; length < 2000; length++) {
    const bearer = `eyJ${'x'.repeat(length)}.y.z`
    assert.doesNotMatch(formatToolCall(report(`${bearer} ${bearer} ${token}`)), /Ab3-|eyJ/, String(length))
  }
  fc.assert(
    fc.property(fc.nat(5000), fc.nat(90), (before, others) => {
      const text = `${'a '.repeat(before / 2)}${`${token} `.repeat(others + 1)}`
      assert.ok(!formatToolCall(report(text)).includes(token.slice(0, 20)))
    }),
  )
})
