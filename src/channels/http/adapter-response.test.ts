import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ChannelError } from '../../core/delivery/channel.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readAdapterResponse } from './adapter-response.ts'

const CALL = { adapter: 'teled', tool: 'send', platform: 'telegram', hint: 'do otherwise' }

test('accepts any response, and only a 2xx status is a success', () => {
  const text = fc.oneof(
    fc.string(),
    fc.json(),
    fc.record({ ok: fc.anything(), id: fc.anything(), error: fc.anything() }).map((body) => {
      try {
        return JSON.stringify(body) ?? ''
      } catch {
        return ''
      }
    }),
  )
  const retry = fc.option(fc.string(), { nil: undefined })
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 599 }), text, retry, (status, text, after) => {
      try {
        const { id } = readAdapterResponse({ status, text, headers: { 'retry-after': after } }, CALL)
        assert.ok(status >= 200 && status < 300)
        assert.ok(id === undefined || (id !== '' && id.length <= 512))
      } catch (error) {
        if (error instanceof Refusal) assert.deepEqual([status, error.code], [501, 'unsupported'])
        else {
          assert.ok(error instanceof ChannelError, String(error))
          assert.ok(error.kind === 'permanent' || status >= 400)
        }
      }
    }),
  )
})
