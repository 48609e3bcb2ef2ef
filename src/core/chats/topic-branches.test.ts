import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { appendLinkPost, createLinkPostHandler } from '../messages/link-inbound.ts'
import { messages } from '../messages/messages.ts'
import { chatTopics } from './chat-topics.ts'
import {
  BRANCH_DEPTH_MAX,
  conversationCursorBeforeLatest,
  conversationEventsAfter,
  createBranch,
  latestConversationEvents,
  planBranch,
} from './topic-branches.ts'

interface ModelTopic {
  readonly name: string
  /** Numbers of the events before its own. */
  readonly earlier: readonly number[]
  readonly own: number[]
}

onEveryEngine('branches of topics', (engine) => {
  test('show each event once, in order, from any position, as a model does', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const { engine: store } = on.host
    let chats = 0
    const run = async (
      steps: readonly { readonly topic: number; readonly message: number; readonly isBranch: boolean }[],
    ) => {
      const jid = `web:main/${chats++}`
      const link = await addLink(on, jid)
      const topics: ModelTopic[] = [{ name: 't0', earlier: [], own: [] }]
      let last = 0
      const append = async (topic: ModelTopic) => {
        await store.transaction((tx) => appendLinkPost(tx, store.dialect, postOf(on, link, { topic: topic.name })))
        topic.own.push(++last)
      }
      for (const step of [{ topic: 0, message: 0, isBranch: false }, ...steps]) {
        const from = topics[step.topic % topics.length] ?? assert.fail()
        if (!step.isBranch || from.own.length === 0) {
          await append(from)
          continue
        }
        const at = step.message % from.own.length
        const branch: ModelTopic = {
          name: `t${topics.length}`,
          earlier: [...from.earlier, ...from.own.slice(0, at)],
          own: [],
        }
        const number = from.own[at] ?? 0
        await store.transaction(async (tx) => {
          const { events } = await conversationEventsAfter(tx, { jid, topic: from.name, after: number - 1, limit: 1 })
          const { message } = events[0] ?? {}
          assert.ok(message)
          await createBranch(tx, await planBranch(tx, { jid, topic: branch.name, message }), message.created_at)
        })
        await append(branch)
        topics.push(branch)
      }
      for (const { name: topic, earlier, own } of topics) {
        const all = [...earlier, ...own]
        for (let after = 0; after <= last; after += 1 + (all.length % 3)) {
          const read: number[] = []
          for (let [isMore, from] = [true, after]; isMore; ) {
            const page = await store.read((tx) => conversationEventsAfter(tx, { jid, topic, after: from, limit: 2 }))
            read.push(...page.events.map(({ seq }) => seq))
            from = page.events.at(-1)?.seq ?? from
            isMore = page.isMore
          }
          assert.deepEqual(
            read,
            all.filter((seq) => seq > after),
          )
        }
        const limit = 1 + (all.length % 4)
        const [cursor, latest] = await store.read(async (tx) => [
          await conversationCursorBeforeLatest(tx, { jid, topic, limit }),
          await latestConversationEvents(tx, { jid, topic, limit }),
        ])
        assert.equal(cursor, (all.slice(-limit)[0] ?? 0) - 1)
        assert.deepEqual(
          latest.map(({ seq }) => seq),
          all.slice(-limit),
        )
      }
    }
    const step = fc.record({ topic: fc.nat(20), message: fc.nat(20), isBranch: fc.boolean() })
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 14 }), run), { numRuns: 12 })
  })

  test('continue up to the limit of levels', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const { engine: store } = on.host
    const jid = 'web:main'
    const link = await addLink(on, jid)
    const post = (topic: string) =>
      store.transaction((tx) => appendLinkPost(tx, store.dialect, postOf(on, link, { topic })))
    const branchOfLast = (from: string, topic: string) =>
      store.transaction(async (tx) => {
        const [message] = await messages.list(tx, { jid, topic: from }, [['seq', 'desc']])
        assert.ok(message)
        await createBranch(tx, await planBranch(tx, { jid, topic, message }), message.created_at)
      })
    await post('0')
    for (let level = 1; level <= BRANCH_DEPTH_MAX; level++) {
      await branchOfLast(`${level - 1}`, `${level}`)
      await post(`${level}`)
      await post(`${level}`)
    }
    await assert.rejects(branchOfLast(`${BRANCH_DEPTH_MAX}`, 'more'), isRefusal('unprocessable', 'too many branches'))
    // Another version of the first message of a branch is no further level.
    const [first] = await store.read((tx) => messages.list(tx, { jid, topic: `${BRANCH_DEPTH_MAX}` }, [['seq', 'asc']]))
    assert.ok(first)
    const { depth, parent } = await store.read((tx) => planBranch(tx, { jid, topic: 'more', message: first }))
    assert.deepEqual([depth, parent], [BRANCH_DEPTH_MAX, `${BRANCH_DEPTH_MAX - 1}`])
  })

  test('have names of their own, also beside posts that are not in their chat yet', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const { engine: store } = on.host
    const jid = 'web:main'
    const link = await addLink(on, jid)
    const handler = createLinkPostHandler()
    const append = (...posts: Parameters<typeof postOf>[2][]) =>
      store.transaction((tx) =>
        handler.run(
          tx,
          store.dialect,
          posts.map((post) => postOf(on, link, post)),
        ),
      )
    await store.transaction((tx) => appendLinkPost(tx, store.dialect, postOf(on, link, { topic: 'red' })))
    const planned = (topic: string) =>
      store.read(async (tx) => {
        const message = (await messages.find(tx, { jid, topic: 'red' })) ?? assert.fail()
        return { topic, branch: await planBranch(tx, { jid, topic, message }) }
      })
    const [blue, green] = [await planned('blue'), await planned('green')]
    assert.deepEqual(await append({ topic: 'blue' }, blue, green, green), ['appended', 'taken', 'appended', 'taken'])
    const gone = { ...(await planned('none')), link: 'x'.repeat(32) }
    assert.deepEqual(await append(gone), ['unknown'])
    assert.deepEqual(
      (await store.read((tx) => chatTopics.list(tx))).map(({ topic }) => topic),
      ['green', 'red'],
    )
  })
})
