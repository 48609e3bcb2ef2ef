import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { runs } from '../../../test/support/part.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { openLog } from '../../lib/log/log.ts'
import { AdapterStore } from '../process/adapter-store.ts'
import { type ConnectorContext, type InboundEvent, PlatformError } from '../process/port.ts'
import type { SlackCall } from './slack-api.ts'
import { SlackDirectory } from './slack-directory.ts'
import { readEnvelope, type SlackContext } from './slack-events.ts'
import { SlackGaps } from './slack-gaps.ts'
import { SlackIntake } from './slack-intake.ts'

const SLACK: SlackContext = { bot: { team: 'T0TEST', user: 'U0ADA', bot: 'B0ADA', name: 'ada' }, areBotsHeard: false }

const message = (number: number, channel = 'C0TEAM', members: object = {}) => ({
  ...{ type: 'message', channel, channel_type: 'channel', user: 'U0MIA', text: `message ${number}` },
  ...{ ts: `1800000000.${String(number).padStart(6, '0')}`, ...members },
})

const setUp = async (t: CleanupScope, history: SlackCall, directory = tempDir(t)) => {
  const stored: InboundEvent[] = []
  const state = new AdapterStore(directory, Date.now)
  const stop = new AbortController()
  t.after(() => {
    stop.abort()
    state.close()
  })
  let release = Promise.withResolvers<void>()
  const call: SlackCall = async (method, args) => (method.startsWith('conversations.') ? history(method, args) : {})
  const log = await openLog({ to: { write: () => undefined } })
  const context: ConnectorContext = {
    ...{ account: 'slack', settings: {}, secrets: {}, state, log, now: Date.now, signal: stop.signal },
    receive: async (event) => {
      await release.promise
      stored.push(event)
      return 'stored'
    },
    setHealth: () => undefined,
    guard: (callback) => callback,
  }
  const gaps = new SlackGaps({ call, state, log, signal: stop.signal, paceMs: 0, retryMs: 0 })
  const names = new SlackDirectory({ call, state, now: Date.now })
  const intake = new SlackIntake({ context, call, directory: names, gaps })
  const receive = (event: object): (Promise<void> | undefined)[] =>
    readEnvelope(SLACK, 'events_api', { event }).map((each) => intake.receive(SLACK, each))
  return {
    ...{ stored, state, gaps, intake, receive },
    answer: () => release.resolve(),
    hang: () => {
      release = Promise.withResolvers()
    },
  }
}

suite('events that wait for svc', () => {
  test('are limited, and those that were not taken are read from the history in order', async (t) => {
    const all = Array.from({ length: 600 }, (_, at) => message(at + 1))
    const { stored, receive, answer } = await setUp(t, async (_, { oldest } = {}) => ({
      messages: all.filter(({ ts }) => Number(ts) > Number(oldest)).toReversed(),
    }))
    const taken = all.flatMap(receive)
    assert.equal(taken.filter((each) => each !== undefined).length, 500)
    answer()
    await Promise.all(taken)
    await until(() => stored.length === 600)
    assert.deepEqual(
      stored.map(({ id }) => id),
      all.map(({ ts }) => ts),
    )
  })

  test('of another chat do not wait for a chat whose history cannot be read', async (t) => {
    const never = new Promise<never>(() => undefined)
    const { stored, receive, answer, gaps } = await setUp(t, async (_, { channel } = {}) =>
      channel === 'C0SLOW' ? never : { messages: [] },
    )
    answer()
    await Promise.all(receive(message(1, 'C0SLOW')))
    gaps.begin()
    receive(message(2, 'C0SLOW'))
    await Promise.all(receive(message(3, 'C0OTHER')))
    assert.deepEqual(
      stored.map(({ content }) => content),
      ['message 1', 'message 3'],
    )
  })
})

suite('a history that cannot be read', () => {
  const textsOf = (stored: readonly InboundEvent[]) => stored.map(({ content }) => content)

  test('is read after a restart, also if newer messages arrived before', async (t) => {
    const directory = tempDir(t)
    const first = await setUp(
      t,
      async () => {
        throw new PlatformError('unavailable', 'Slack cannot be reached')
      },
      directory,
    )
    first.answer()
    await Promise.all(first.receive(message(1)))
    first.gaps.begin()
    await Promise.all(first.receive(message(3)))
    assert.deepEqual(textsOf(first.stored), ['message 1', 'message 3'])
    const all = [message(1), message(2), message(3)]
    const newer = async (_: string, { oldest }: Record<string, unknown> = {}) => ({
      messages: all.filter(({ ts }) => Number(ts) > Number(oldest)),
    })
    const { stored, gaps, intake, answer } = await setUp(t, newer, directory)
    answer()
    gaps.begin()
    await intake.readGaps(SLACK)
    assert.deepEqual(textsOf(stored), ['message 2', 'message 3'])
  })

  test('is tried again until it can be read', async (t) => {
    let failures = 3
    const { stored, receive, gaps, intake, answer } = await setUp(t, async () => {
      if (failures-- > 0) throw new PlatformError('unavailable', 'Slack cannot be reached')
      return { messages: [message(2)] }
    })
    answer()
    await Promise.all(receive(message(1)))
    gaps.begin()
    await intake.readGaps(SLACK)
    assert.deepEqual(textsOf(stored), ['message 1', 'message 2'])
  })

  test('is read before the next message of a chat that is not among the last', async (t) => {
    const { stored, state, receive, gaps, answer } = await setUp(t, async () => ({ messages: [message(2)] }))
    answer()
    await Promise.all(receive(message(1)))
    for (let at = 0; at < 500; at++) state.setCursor(`seen C1${at}`, '1900000000.000001')
    gaps.begin()
    await Promise.all(receive(message(3)))
    assert.deepEqual(textsOf(stored), ['message 1', 'message 2', 'message 3'])
  })
})

suite('cursors of conversations', () => {
  test('are kept for those where something was written last', {
    skip: runs(0, 1) === 0 && 'long part: writes to the disk for each message',
  }, async (t) => {
    const { receive, answer, state } = await setUp(t, async () => ({ messages: [] }))
    answer()
    for (let at = 1; at <= 3000; at++) await Promise.all(receive(message(at, `C${String(at).padStart(6, '0')}`)))
    const kept = state.cursors('seen ')
    assert.ok(kept.length <= 2500, String(kept.length))
    assert.ok(kept.some(({ name }) => name === 'seen C003000'))
    assert.ok(!kept.some(({ name }) => name === 'seen C000001'))
  })
})
