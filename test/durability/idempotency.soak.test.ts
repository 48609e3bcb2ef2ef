// A message sent repeatedly with the same key is stored once, and every response equals the first (P4).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine } from '../support/host.ts'
import { type Link, openLinkedInstance, type ServedLinks } from '../support/linked-instance.ts'

const TIMES = 25

interface Answer {
  readonly status: number
  readonly body: string
}

async function send(url: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
  const answer = await fetch(url, { method: 'POST', body, headers: { 'Content-Type': 'text/plain', ...headers } })
  return { status: answer.status, body: await answer.text() }
}

/** Sends concurrently, alternating between the processes. */
function sendMany(urls: readonly string[], body: string, headers: Record<string, string>): Promise<Answer[]> {
  return Promise.all(Array.from({ length: TIMES }, (_, index) => send(urls[index % urls.length] ?? '', body, headers)))
}

const distinct = (answers: readonly Answer[]): Answer[] => [
  ...new Map(answers.map((answer) => [JSON.stringify(answer), answer])).values(),
]

onEveryEngine('a repeated message', (engine) => {
  test('with the same Idempotency-Key is stored once: concurrently, in two processes, and after a restart', async (t) => {
    const demo = await openLinkedInstance(t, engine)
    const [hook, chat, other] = [await demo.mintHook('a'), await demo.mintChat('b'), await demo.mintHook('c')]
    const count = async (link: Link): Promise<number> => (await demo.inbound(link)).length
    const both = [await demo.start(), await demo.start()]
    const key = { 'Idempotency-Key': 'the-same' }
    const to = (servers: readonly ServedLinks[], at: 'hook' | 'chat', link: Link): string[] =>
      servers.map((served) => served[at](link))

    const hooked = distinct(await sendMany(to(both, 'hook', hook), 'once', key))
    assert.deepEqual(hooked, [{ status: 204, body: '' }])
    assert.equal(await count(hook), 1)

    const [handle, ...others] = distinct(await sendMany(to(both, 'chat', chat), 'once', key))
    assert.deepEqual(others, [])
    assert.equal(handle?.status, 200)
    assert.equal(await count(chat), 1)
    const { turn_id } = JSON.parse(handle.body)
    assert.equal(turn_id, (await demo.inbound(chat))[0]?.id)

    await both[0]?.kill()
    await both[1]?.stop()
    const again = await demo.start()
    assert.deepEqual(await send(again.hook(hook), 'once', key), hooked[0])
    const repeated = await send(again.chat(chat), 'once', key)
    assert.equal(repeated.status, 200)
    assert.equal(JSON.parse(repeated.body).turn_id, turn_id)
    assert.deepEqual([await count(hook), await count(chat)], [1, 1])

    assert.equal((await send(again.hook(hook), 'something else', key)).status, 422)
    assert.equal((await send(again.chat(chat), 'something else', key)).status, 422)
    assert.equal((await send(again.hook(other), 'something else', key)).status, 204)
    assert.deepEqual([await count(hook), await count(chat), await count(other)], [1, 1, 1])
    await again.stop()
  })

  test('with the same webhook-id and body is stored once; with another body or without a key it is a new message', async (t) => {
    const demo = await openLinkedInstance(t, engine)
    const link = await demo.mintHook('a')
    const both = [await demo.start(), await demo.start()]
    const urls = both.map((served) => served.hook(link))
    const contents = async (): Promise<string[]> =>
      (await demo.inbound(link)).map(({ content }) => Buffer.from(content).toString())
    const key = { 'webhook-id': 'msg_1' }
    assert.deepEqual(distinct(await sendMany(urls, 'one', key)), [{ status: 204, body: '' }])
    assert.deepEqual(await contents(), ['one'])
    assert.equal((await send(urls[0] ?? '', 'two', key)).status, 204)
    assert.deepEqual(await contents(), ['one', 'two'])
    const plain = await sendMany(urls, 'three', {})
    assert.deepEqual(distinct(plain), [{ status: 204, body: '' }])
    assert.equal((await contents()).length, 2 + TIMES)
    for (const served of both) await served.stop()
  })
})
