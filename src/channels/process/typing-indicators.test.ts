import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RepeatedTyping } from './typing-indicators.ts'

const EVERY_MS = 9000

function setUp(t: TestContext, show: () => Promise<unknown> = async () => undefined) {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] })
  const shown: string[] = []
  const typing = new RepeatedTyping({
    everyMs: EVERY_MS,
    now: () => Date.now(),
    guard: (callback) => () => void callback(),
    show: ({ chat, threadId = '' }) => {
      shown.push(chat + threadId)
      return show()
    },
  })
  t.after(() => typing.close())
  return { typing, shown }
}

test('an indicator is shown again until it is switched off, each thread on its own', async (t) => {
  const { typing, shown } = setUp(t)
  await typing.set({ chat: 'a' }, true)
  await typing.set({ chat: 'a', threadId: '1' }, true)
  t.mock.timers.tick(EVERY_MS)
  await typing.set({ chat: 'a' }, false)
  t.mock.timers.tick(EVERY_MS)
  typing.close()
  t.mock.timers.tick(EVERY_MS)
  assert.deepEqual(shown, ['a', 'a1', 'a', 'a1', 'a1'])
})

test('an indicator that is not switched off ends after five minutes', async (t) => {
  const { typing, shown } = setUp(t)
  await typing.set({ chat: 'a' }, true)
  for (let times = 0; times < 100; times++) t.mock.timers.tick(EVERY_MS)
  assert.equal(shown.length, 1 + Math.floor((5 * 60_000) / EVERY_MS))
})

test('an indicator that the platform refuses is not shown again', async (t) => {
  const { typing, shown } = setUp(t, () => Promise.reject(new Error('no chat')))
  await assert.rejects(typing.set({ chat: 'a' }, true), /no chat/)
  t.mock.timers.tick(EVERY_MS)
  assert.equal(shown.length, 1)
})
