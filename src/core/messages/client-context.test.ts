import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { CLIENT_CONTEXT_MAX, fitClientContext } from './client-context.ts'
import type { EarlierMessage } from './messages.ts'

const said = (content: string, role: EarlierMessage['role'] = 'user'): EarlierMessage => ({ role, content })

test('nothing given is no context', () => {
  assert.equal(fitClientContext({}), undefined)
  assert.equal(fitClientContext({ system: '', history: [], metadata: {} }), undefined)
})

test('a context that fits is kept as it is', () => {
  const history = [said('hi'), said('hello', 'assistant')]
  const given = { system: 'Be brief.', history, metadata: { page: '/shop', cart: [1] } }
  assert.deepEqual(fitClientContext(given), given)
})

test('a system prompt keeps its first 32 KiB, in whole characters', () => {
  const max = CLIENT_CONTEXT_MAX / 2
  assert.deepEqual(fitClientContext({ system: 'a'.repeat(max) }), { system: 'a'.repeat(max) })
  assert.deepEqual(fitClientContext({ system: 'a'.repeat(max + 1) }), { system: 'a'.repeat(max), is_system_cut: true })
  const cut = fitClientContext({ system: `a${'€'.repeat(max)}` })
  assert.equal(cut?.system, `a${'€'.repeat((max - 2) / 3)}`)
})

test('a history keeps its newest part', () => {
  const long = 'x'.repeat(CLIENT_CONTEXT_MAX - 32)
  const fits = [said('old'), said('x'.repeat(CLIENT_CONTEXT_MAX - 35))]
  assert.deepEqual(fitClientContext({ history: fits }), { history: fits })
  const cut = fitClientContext({ history: [said('old'), said(long)] })
  assert.deepEqual(cut, { history: [said(long)], is_history_cut: true })
  const tail = fitClientContext({ history: [said(`${'y'.repeat(9)}${'x'.repeat(CLIENT_CONTEXT_MAX)}`)] })
  assert.deepEqual(tail, { history: [said('x'.repeat(CLIENT_CONTEXT_MAX - 16))], is_history_cut: true })
})

test('whatever is given, the texts stay within the limit, and the kept history is the end of the given one', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.tuple(fc.string({ unit: 'grapheme', minLength: 1 }), fc.nat(30_000)).map(([each, times]) => each.repeat(times)),
  )
  const history = fc.array(fc.record({ role: fc.constantFrom('user', 'assistant'), content: text }), { maxLength: 8 })
  fc.assert(
    fc.property(text, history, (system, earlier) => {
      const kept = fitClientContext({ system, history: earlier })
      const texts = [kept?.system ?? '', ...(kept?.history ?? []).map(({ content }) => content)]
      assert.ok(texts.reduce((sum, each) => sum + Buffer.byteLength(each), 0) <= CLIENT_CONTEXT_MAX)
      assert.ok(system.startsWith(kept?.system ?? ''))
      const all = kept?.history ?? []
      const last = earlier.slice(earlier.length - all.length)
      for (const [at, { role, content }] of all.entries()) {
        assert.equal(role, last[at]?.role)
        assert.ok(last[at]?.content.endsWith(content))
        if (at > 0) assert.equal(content, last[at]?.content)
      }
      assert.equal(
        kept?.is_history_cut === undefined,
        all.length === earlier.length && all[0]?.content === earlier[0]?.content,
      )
    }),
    { numRuns: 100 },
  )
})
