import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngineQuickly, type TestHost, testHost } from '../../../test/support/host.ts'
import { type InboundMessage, recordInbound } from '../messages/inbound.ts'
import { messages } from '../messages/messages.ts'
import { rounds } from '../turns/rounds.ts'
import { HISTORY_MAX, type HistoryMessage, type HistoryRequest, readChatHistory } from './chat-history.ts'

const NOW = '2026-01-01T00:00:00.000Z'

async function receive({ host }: TestHost, content: string, changes: Partial<InboundMessage> = {}): Promise<string> {
  const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  const place = { jid: 'web:team', target_folder: 'team' }
  const message: InboundMessage = { ...place, sender: 'github:1', content, hasRound: true, reach: 'work', ...changes }
  return (await host.engine.transaction((tx) => recordInbound(tx, context, message))).id
}

function read({ host }: TestHost, request: Partial<HistoryRequest> = {}): Promise<HistoryMessage[]> {
  return host.engine.read((tx) => readChatHistory(tx, { jid: 'web:team', folder: 'team', limit: 50, ...request }))
}

const contents = (history: readonly HistoryMessage[]): string[] => history.map(({ content }) => content)

onEveryEngineQuickly('the history of a chat', (engine) => {
  test('shows the newest messages first, filtered by topic and folder', async (t) => {
    const on = await testHost(t, engine)
    for (let n = 0; n < 25; n++) await receive(on, `n${n}`, n % 5 === 0 ? { topic: 'fifth' } : {})
    await receive(on, 'elsewhere', { jid: 'web:other', target_folder: 'other' })
    await receive(on, 'from another time', { target_folder: 'other' })
    assert.deepEqual(
      contents(await read(on, { limit: 100 })),
      Array.from({ length: 25 }, (_, n) => `n${24 - n}`),
    )
    assert.deepEqual(contents(await read(on, { limit: 12 })).length, 12)
    assert.deepEqual(contents(await read(on, { topic: 'fifth' })), ['n20', 'n15', 'n10', 'n5', 'n0'])
    assert.equal((await read(on, { topic: '', limit: 100 })).length, 20)
  })

  test('shows acknowledged messages that are not chat events yet', async (t) => {
    const on = await testHost(t, engine)
    await receive(on, 'filed')
    const post = { id: 'm', jid: 'web:team', target_folder: 'team', sender: 'github:1', topic: 'here' }
    const rest = { direction: 'in', kind: 'message', content: Buffer.from('on its way'), created_at: NOW } as const
    await on.host.engine.transaction((tx) => messages.insertReturning(tx, { ...post, ...rest }))
    assert.deepEqual(contents(await read(on)), ['on its way', 'filed'])
    assert.deepEqual(contents(await read(on, { topic: 'here' })), ['on its way'])
    assert.deepEqual(contents(await read(on, { topic: '' })), ['filed'])
    assert.deepEqual(contents(await read(on, { folder: 'other' })), [])
    await receive(on, 'next')
    assert.deepEqual(contents(await read(on)), ['next', 'on its way', 'filed'])
  })

  test('hides the prompts of tasks', async (t) => {
    const on = await testHost(t, engine)
    await receive(on, 'a prompt', { sender: 'timed', hasRound: false })
    await receive(on, 'another', { sender: 'timed-isolated:1', hasRound: false })
    await receive(on, 'hello')
    assert.deepEqual(contents(await read(on)), ['hello'])
  })

  test('opens a round for a message that was sent without a link', async (t) => {
    const on = await testHost(t, engine)
    const id = await receive(on, 'hello')
    const [round] = await on.host.engine.read((tx) => rounds.list(tx))
    assert.deepEqual([round?.id, round?.status, round?.target_folder], [id, 'pending', 'team'])
  })
})

test('limits the size of a history and cuts long messages before short ones', async (t) => {
  const on = await testHost(t)
  const jids = fc.nat().map((n) => `web:${n}`)
  const lengths = fc.array(fc.oneof(fc.nat(200), fc.nat(300_000)), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(jids, lengths, fc.constantFrom('x', 'é', '😀'), async (jid, counts, letter) => {
      await on.host.engine.transaction((tx) => messages.remove(tx, { jid }))
      await on.host.engine.transaction(async (tx) => {
        for (const [n, count] of counts.entries()) {
          const content = Buffer.from(letter.repeat(count / letter.length))
          const post = { id: `${jid}-${n}`, jid, target_folder: 'team', sender: `n:${n}`, content, created_at: NOW }
          await messages.insertReturning(tx, { ...post, direction: 'in', kind: 'message' })
        }
      })
      const history = (await read(on, { jid })).reverse()
      const whole = counts.map((count) => letter.repeat(count / letter.length))
      assert.equal(history.length, whole.length)
      const shares = history.map(({ content }, n) => {
        const [, start = content, left] = /^(.*)… \[(\d+) more characters\]$/s.exec(content) ?? []
        assert.equal(whole[n]?.startsWith(start), true)
        assert.equal([...start].length + Number(left ?? 0), [...(whole[n] ?? '')].length)
        return { length: start.length, isCut: left !== undefined }
      })
      assert.ok(shares.reduce((sum, { length }) => sum + length, 0) <= HISTORY_MAX)
      const shortest = Math.min(...shares.filter(({ isCut }) => isCut).map(({ length }) => length))
      for (const { length, isCut } of shares) if (!isCut) assert.ok(length <= shortest + letter.length)
    }),
    { numRuns: 30 },
  )
})
