import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { AdapterStore } from './adapter-store.ts'
import { Drafts } from './drafts.ts'
import { type Connector, PlatformError } from './port.ts'
import { Sender } from './sender.ts'

interface Options {
  readonly repeats?: Connector['repeats']
  readonly everyMs?: Connector['draftEveryMs']
  readonly waitMs?: number
}

/** A platform in memory with texts of at most 20 characters. `fail` is called before each request and may throw or wait. */
function setUp(t: TestContext, { repeats, everyMs = 0, waitMs }: Options = {}) {
  const directory = tempDir(t)
  const messages = new Map<string, string>()
  const requests: string[] = []
  const nonces = new Map<string, string>()
  const faults: unknown[] = []
  let [nextId, fail]: [number, (request: string) => void | Promise<void>] = [1, () => undefined]
  const ask = async (request: string): Promise<void> => {
    requests.push(request)
    await fail(request)
  }
  const known = (id: string): string => {
    if (messages.has(id)) return id
    throw new PlatformError('refused', `there is no message ${id}`)
  }
  const connector: Connector = {
    limits: { text: 20 },
    draftEveryMs: everyMs,
    repeats,
    actions: {
      sendText: async ({ text, nonce }) => {
        const sent = nonces.get(nonce)
        if (repeats === 'safe' && sent !== undefined) return sent
        const id = String(nextId++)
        const isLost = requests.length === 0 && repeats !== undefined
        if (isLost) nonces.set(nonce, id)
        if (isLost) messages.set(id, text)
        await ask(`send ${text}`)
        messages.set(id, text)
        return id
      },
      edit: async ({ id, text }) => {
        await ask(`edit ${id} ${text}`)
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
  const open = () => {
    const state = new AdapterStore(directory, () => 0)
    const drafts = new Drafts({ connector, state, waitMs, onFault: (error) => void faults.push(error) })
    t.after(async () => {
      await drafts.close()
      state.close()
    })
    return { drafts, sender: new Sender({ connector, state, drafts }) }
  }
  return {
    ...open(),
    open,
    nonces,
    messages,
    requests,
    faults,
    shown: () => [...messages.values()],
    failAt: (prefix: string, kind: PlatformError['kind'], retryAfterS?: number) => {
      fail = (request) => {
        if (!request.startsWith(prefix)) return
        fail = () => undefined
        throw new PlatformError(kind, 'it failed', { retryAfterS })
      }
    },
    /** Requests that begin so wait until the function is called. */
    hold: (prefix: string) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      fail = (request) => (request.startsWith(prefix) ? promise : undefined)
      return resolve
    },
  }
}

const at = { chat: 'chat', threadId: 'news' }
const turn = { ...at, key: 'turn' }
const message = { ...at, key: 'message', turnId: 'turn' }

suite('a draft', () => {
  test('is one message that grows, and that the message of its turn takes over', async (t) => {
    const { drafts, sender, shown, requests } = setUp(t)
    drafts.show({ ...turn, text: 'so' })
    await until(() => shown()[0] === 'so')
    drafts.show({ ...turn, text: 'so far' })
    await until(() => shown()[0] === 'so far')
    assert.equal(await sender.sendText({ ...message, text: 'so far so good' }), '1')
    assert.deepEqual(shown(), ['so far so good'])
    assert.equal(await sender.sendText({ ...message, text: 'so far so good' }), '1')
    assert.deepEqual(requests, ['send so', 'edit 1 so far', 'edit 1 so far so good'])
  })

  test('that has the whole text already is not changed again', async (t) => {
    const { drafts, sender, shown, requests } = setUp(t)
    drafts.show({ ...turn, text: 'all' })
    await until(() => shown()[0] === 'all')
    assert.equal(await sender.sendText({ ...message, text: 'all' }), '1')
    assert.deepEqual(requests, ['send all'])
  })

  test('shows the start of a longer text, and further parts follow with the message', async (t) => {
    const { drafts, sender, shown } = setUp(t)
    const text = 'part one of it\n\npart two of it\n\npart three of it'
    drafts.show({ ...turn, text })
    await until(() => shown().length === 1)
    assert.deepEqual(shown(), ['part one of it\n…'])
    drafts.show({ ...turn, text: `${text} and more` })
    assert.equal(await sender.sendText({ ...message, text }), '1')
    assert.deepEqual(shown(), ['part one of it', 'part two of it', 'part three of it'])
  })

  test('gets only the newest text, at the pace of its chat', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { drafts, requests } = setUp(t, { everyMs: ({ chat }) => (chat === 'chat' ? 60_000 : 0) })
    const settle = () => new Promise((resolve) => setImmediate(resolve))
    const pass = async (ms: number): Promise<void> => {
      t.mock.timers.tick(ms)
      await settle()
    }
    drafts.show({ ...turn, text: 'one' })
    await pass(0)
    for (const text of ['two', 'three']) drafts.show({ ...turn, text })
    drafts.show({ ...turn, key: 'other turn', text: 'of another turn' })
    await pass(1000)
    assert.deepEqual(requests, ['send one'])
    drafts.show({ ...turn, chat: 'other chat', text: 'elsewhere' })
    await pass(0)
    assert.deepEqual(requests, ['send one', 'send elsewhere'])
  })

  test('goes on after a restart, and is taken over after one', async (t) => {
    const { drafts, open, shown } = setUp(t)
    drafts.show({ ...turn, text: 'so' })
    await until(() => shown().length === 1)
    const second = open()
    second.drafts.show({ ...turn, text: 'so far' })
    await until(() => shown()[0] === 'so far')
    assert.equal(await open().sender.sendText({ ...message, text: 'done' }), '1')
    assert.deepEqual(shown(), ['done'])
  })

  test('is removed if the turn sends nothing, and its next attempt writes another', async (t) => {
    const { drafts, sender, shown, failAt } = setUp(t)
    drafts.show({ ...turn, text: 'so' })
    await until(() => shown().length === 1)
    failAt('delete', 'rate_limited', 0)
    drafts.remove(turn)
    await until(() => shown().length === 0)
    await until(() => {
      drafts.show({ ...turn, text: 'again' })
      return shown()[0] === 'again'
    })
    assert.equal(await sender.sendText({ ...message, text: 'done' }), '2')
    assert.deepEqual(shown(), ['done'])
  })

  test('that arrives after its message is not shown, also after a restart', async (t) => {
    const { drafts, sender, open, shown, requests } = setUp(t)
    drafts.show({ ...turn, text: 'so' })
    await until(() => shown().length === 1)
    await sender.sendText({ ...message, text: 'done' })
    for (const each of [drafts, open().drafts]) each.show({ ...turn, text: 'so far' })
    await sender.sendText({ ...at, key: 'first', turnId: 'turn 2', text: 'other' })
    drafts.show({ ...turn, key: 'turn 2', text: 'late' })
    await sender.sendText({ ...at, key: 'last', text: 'last' })
    assert.deepEqual(shown(), ['done', 'other', 'last'])
    assert.equal(requests.length, 4)
  })

  test('belongs to its thread: a message elsewhere leaves it alone', async (t) => {
    const { drafts, sender, shown } = setUp(t)
    drafts.show({ ...turn, text: 'so' })
    await until(() => shown().length === 1)
    await sender.sendText({ ...message, threadId: undefined, text: 'elsewhere' })
    await sender.sendText({ ...message, chat: 'other', key: 'third', text: 'there' })
    assert.deepEqual(shown(), ['so', 'elsewhere', 'there'])
  })

  test('that a person has deleted is replaced by a message of its own', async (t) => {
    const { drafts, sender, shown, messages } = setUp(t)
    drafts.show({ ...turn, text: 'so' })
    await until(() => shown().length === 1)
    messages.clear()
    assert.equal(await sender.sendText({ ...message, text: 'done' }), '2')
    assert.deepEqual(shown(), ['done'])
  })

  test('pauses for the time that the platform names, and the message does not wait', async (t) => {
    const { drafts, sender, shown, failAt, requests } = setUp(t)
    failAt('send so', 'rate_limited', 3600)
    drafts.show({ ...turn, text: 'so' })
    await until(() => requests.length === 1)
    drafts.show({ ...turn, text: 'so far' })
    assert.equal(await sender.sendText({ ...message, text: 'done' }), '2')
    assert.deepEqual([shown(), requests], [['done'], ['send so', 'send done']])
  })

  test('ends silently with any other error', async (t) => {
    for (const kind of ['refused', 'unavailable', 'unsupported'] as const) {
      const { drafts, sender, shown, failAt, requests, faults } = setUp(t)
      failAt('send so', kind)
      drafts.show({ ...turn, text: 'so' })
      await until(() => requests.length === 1)
      drafts.show({ ...turn, text: 'so far' })
      await sender.sendText({ ...message, text: 'done' })
      assert.deepEqual([shown(), requests.length, faults], [['done'], 2, []])
    }
  })

  test('whose change is under way never overwrites the message', async (t) => {
    const { drafts, sender, shown, hold, requests } = setUp(t)
    drafts.show({ ...turn, text: 'so' })
    await until(() => shown().length === 1)
    const release = hold('edit 1 so far')
    drafts.show({ ...turn, text: 'so far' })
    await until(() => requests.length === 2)
    const sent = sender.sendText({ ...message, text: 'done' })
    release()
    assert.equal(await sent, '1')
    assert.deepEqual(shown(), ['done'])
  })

  test('that hangs does not hold up the message for long, and is removed when it ends', async (t) => {
    const { drafts, sender, shown, hold, requests } = setUp(t, { waitMs: 10 })
    const release = hold('send so')
    drafts.show({ ...turn, text: 'so' })
    await until(() => requests.length === 1)
    assert.equal(await sender.sendText({ ...message, text: 'done' }), '2')
    release()
    await until(() => shown().length === 1 && requests.includes('delete 1'))
    assert.deepEqual(shown(), ['done'])
  })

  test('whose first request ended without an answer is found again where the platform can, and never doubled', async (t) => {
    const cases = [
      ['safe', ['done']],
      [async ({ nonce }: { nonce: string }) => on.nonces.get(nonce), ['done']],
      [undefined, ['done']],
    ] as const
    let on = setUp(t)
    for (const [repeats, expected] of cases) {
      on = setUp(t, { repeats })
      on.failAt('send so', 'unclear')
      on.drafts.show({ ...turn, text: 'so' })
      await until(() => on.requests.length === 1)
      await on.open().sender.sendText({ ...message, text: 'done' })
      assert.deepEqual(on.shown(), expected)
    }
  })

  test('is taken over by another attempt if the platform had no time for the message', async (t) => {
    for (const kind of ['rate_limited', 'unavailable', 'unclear'] as const) {
      const { drafts, sender, open, shown, failAt } = setUp(t)
      drafts.show({ ...turn, text: 'so' })
      await until(() => shown().length === 1)
      failAt('edit 1 done', kind)
      await assert.rejects(sender.sendText({ ...message, text: 'done' }), /it failed/)
      assert.equal(await open().sender.sendText({ ...message, text: 'done' }), '1')
      assert.deepEqual(shown(), ['done'])
    }
  })
})
