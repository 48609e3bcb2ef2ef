import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { AdapterStore } from './adapter-store.ts'
import { type Connector, PlatformError } from './port.ts'
import { Sender } from './sender.ts'

/** A platform in memory with texts of at most 10 characters. `fail` is called before each request and may throw. */
function setUp(t: TestContext, repeats?: Connector['repeats']) {
  const directory = tempDir(t)
  const messages = new Map<string, string>()
  const requests: string[] = []
  let [nextId, fail]: [number, (request: string) => void] = [1, () => undefined]
  const ask = async (request: string): Promise<void> => {
    requests.push(request)
    await Promise.resolve()
    fail(request)
  }
  const known = (id: string): string => {
    if (messages.has(id)) return id
    throw new PlatformError('refused', `there is no message ${id}`)
  }
  const connector: Connector = {
    limits: { text: 10 },
    repeats,
    actions: {
      sendText: async ({ text }) => {
        await ask(`send ${text}`)
        const id = String(nextId++)
        messages.set(id, text)
        return id
      },
      edit: async ({ id, text }) => {
        await ask(`edit ${id}`)
        messages.set(known(id), text)
      },
      delete: async ({ id }) => {
        await ask(`delete ${id}`)
        messages.delete(known(id))
      },
    },
    close: async () => undefined,
  }
  /** As after a restart. */
  const open = (now = 0): Sender => {
    const state = new AdapterStore(directory, () => now)
    t.after(() => state.close())
    return new Sender({ connector, state })
  }
  return {
    open,
    sender: open(),
    messages,
    requests,
    shown: () => [...messages.values()],
    failAt: (prefix: string, kind: PlatformError['kind']) => {
      fail = (request) => {
        if (!request.startsWith(prefix)) return
        fail = () => undefined
        throw new PlatformError(kind, 'it failed')
      }
    },
  }
}

const text = (...parts: string[]): string => parts.join('\n\n')
const THREE = text('part one 1', 'part two 2', 'part three')
const TWO = text('part 1 new', 'part 2 new')
const at = { chat: 'chat' }

suite('a message', () => {
  test('is sent once if the same key comes twice at once or after a restart', async (t) => {
    const { sender, open, shown } = setUp(t)
    const out = { ...at, key: 'k', text: THREE }
    assert.deepEqual(await Promise.all([sender.sendText(out), sender.sendText(out)]), ['1', '1'])
    assert.equal(await open().sendText(out), '1')
    assert.deepEqual(shown(), ['part one 1', 'part two 2', 'part three'])
  })

  test('goes on with the first part that was not sent, also after a restart', async (t) => {
    const { sender, open, shown, failAt, requests } = setUp(t)
    const out = { ...at, key: 'k', text: THREE }
    failAt('send part two', 'rate_limited')
    await assert.rejects(sender.sendText(out), /it failed/)
    assert.equal(await open().sendText(out), '1')
    assert.deepEqual(shown(), ['part one 1', 'part two 2', 'part three'])
    assert.equal(requests.length, 4)
  })

  test('whose part may have been sent is not sent again', async (t) => {
    const { sender, open, shown, failAt } = setUp(t)
    const out = { ...at, key: 'k', text: THREE }
    failAt('send part two', 'unclear')
    await assert.rejects(sender.sendText(out), /it failed/)
    await assert.rejects(open().sendText(out), /may have been sent/)
    assert.deepEqual(shown(), ['part one 1'])
  })

  test('is repeated or looked up where the platform knows its nonce', async (t) => {
    const safe = setUp(t, 'safe')
    const out = { ...at, key: 'k', text: 'text' }
    safe.failAt('send', 'unclear')
    await assert.rejects(safe.sender.sendText(out), /it failed/)
    assert.equal(await safe.sender.sendText(out), '1')
    const found = setUp(t, async ({ nonce }) => `found ${nonce.length}`)
    found.failAt('send', 'unclear')
    await assert.rejects(found.sender.sendText(out), /it failed/)
    assert.equal(await found.sender.sendText(out), 'found 32')
    assert.equal(await found.open().sendText(out), 'found 32')
    assert.equal(found.requests.length, 1)
  })

  test('is repeated by the time of its first attempt, also after one that the platform has certainly not sent', async (t) => {
    const began: number[] = []
    const { open, failAt, requests } = setUp(t, async (_, { beganAt }) => void began.push(beganAt))
    const out = { ...at, key: 'k', text: 'text' }
    for (const [time, kind] of [
      [1000, 'unclear'],
      [2000, 'rate_limited'],
      [3000, 'unclear'],
    ] as const) {
      failAt('send', kind)
      await assert.rejects(open(time).sendText(out), /it failed/)
    }
    assert.equal(await open(4000).sendText(out), '1')
    assert.deepEqual(began, [1000, 1000, 1000])
    assert.equal(requests.length, 4)
  })

  test('without text is refused and not reported as sent', async (t) => {
    const { sender, requests } = setUp(t)
    await assert.rejects(sender.sendText({ ...at, key: 'k', text: ' \n ' }), /the text is empty/)
    await assert.rejects(sender.edit({ ...at, id: '1' }, ' '), /the text is empty/)
    assert.deepEqual(requests, [])
  })
})

suite('a change of a message', () => {
  test('gives it as many parts as it needs, each time', async (t) => {
    const { sender, shown } = setUp(t)
    const id = String(await sender.sendText({ ...at, key: 'k', text: 'short' }))
    const target = { ...at, id }
    for (const [changed, expected] of [
      [THREE, ['part one 1', 'part two 2', 'part three']],
      [TWO, ['part 1 new', 'part 2 new']],
      ['short', ['short']],
      [THREE, ['part one 1', 'part two 2', 'part three']],
    ] as const) {
      await sender.edit(target, changed)
      assert.deepEqual(shown(), expected)
    }
    await sender.delete(target)
    assert.deepEqual(shown(), [])
  })

  test('goes on after a failure, wherever it was', async (t) => {
    const failures = [
      ['short', THREE, 'send part three'],
      ['short', THREE, 'send part two'],
      [THREE, 'short', 'delete 2'],
      [THREE, 'short', 'delete 3'],
      [THREE, TWO, 'edit 2'],
    ] as const
    for (const [before, after, failing] of failures) {
      const { sender, open, shown, failAt } = setUp(t)
      const target = { ...at, id: String(await sender.sendText({ ...at, key: 'k', text: before })) }
      failAt(failing, 'unavailable')
      await assert.rejects(sender.edit(target, after), /it failed/)
      await open().edit(target, after)
      assert.deepEqual(shown(), after.split('\n\n'), failing)
    }
  })

  test('deletes the rest after a failure', async (t) => {
    for (const failing of ['delete 1', 'delete 2', 'delete 3']) {
      const { sender, open, shown, failAt } = setUp(t)
      const target = { ...at, id: String(await sender.sendText({ ...at, key: 'k', text: THREE })) }
      failAt(failing, 'unavailable')
      await assert.rejects(sender.delete(target), /it failed/)
      await open().delete(target)
      assert.deepEqual(shown(), [], failing)
    }
  })

  test('waits for the one before', async (t) => {
    const { sender, shown } = setUp(t)
    const target = { ...at, id: String(await sender.sendText({ ...at, key: 'k', text: 'short' })) }
    await Promise.all([sender.edit(target, THREE), sender.edit(target, THREE), sender.edit(target, TWO)])
    assert.deepEqual(shown(), ['part 1 new', 'part 2 new'])
  })
})
