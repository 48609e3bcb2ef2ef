// A revoke applies from the next request on, in every process (P14), and is ordered with respect to each append (P15).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { onEveryEngine } from '../support/host.ts'
import { type Link, type LinkedInstance, openLinkedInstance } from '../support/linked-instance.ts'
import { compare, isAcknowledged, type Load, load, type Sent, statuses } from '../support/load.ts'
import { measureMachineLoad } from '../support/machine-load.ts'
import { repeatableRandom } from '../support/repeatable-random.ts'
import { statusOf } from '../support/served-host.ts'
import { until } from '../support/until.ts'

const STREAM_MS = 1000

/** Revokes with the command line, in another process, and returns the time when it finished. */
async function revoke({ run }: LinkedInstance, { jid }: Link): Promise<number> {
  const { code, stderr } = await run('token', 'demo', 'revoke', jid)
  assert.equal(code, 0, stderr)
  return performance.now()
}

/** Messages accepted although they were sent after the revoke had returned. */
function acceptedAfterRevoke(sent: readonly Sent[], revokedAt: number): Sent[] {
  return sent.filter(({ startedAt, status }) => startedAt > revokedAt && isAcknowledged(status))
}

/** Starts a post, waits until the server has read its headers, and sends half of the body. */
async function sendHalf(url: string): Promise<Socket> {
  const { hostname, port, pathname } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.write(`POST ${pathname} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n`)
  const [interim] = await once(socket, 'data')
  assert.match(String(interim), /^HTTP\/1\.1 100 /)
  socket.write('12345')
  return socket
}

interface OpenStream {
  /** When the server ended it. */
  readonly endedAt: Promise<number>
}

/** Returns the promise in an object, so that `await` does not wait for it. */
async function openStream(url: string): Promise<OpenStream> {
  const answer = await fetch(url, { headers: { Accept: 'text/event-stream' } })
  assert.equal(answer.status, 200)
  const drain = async (): Promise<number> => {
    for await (const _ of answer.body ?? []);
    return performance.now()
  }
  return { endedAt: drain() }
}

onEveryEngine('a revoked link', (engine) => {
  test('accepts no later request in any process, and its streams end within a second', async (t) => {
    const demo = await openLinkedInstance(t, engine)
    const [hook, chat] = [await demo.mintHook('a'), await demo.mintChat('b')]
    const both = [await demo.start(), await demo.start()]
    const streams = await Promise.all(both.map((served) => openStream(served.chat(chat, 'events'))))
    const halves = await Promise.all(both.map((served) => sendHalf(served.hook(hook))))
    const loads = both.map((served) => load(served.hook(hook), { clients: 4 }))
    await Promise.all(loads.map(({ begun }) => begun))

    const revokedAt = await revoke(demo, hook)
    const chatRevokedAt = await revoke(demo, chat)
    for (const socket of halves) {
      const answer = once(socket, 'data')
      socket.write('67890')
      assert.equal(statusOf(String((await answer)[0])), 401)
      socket.destroy()
    }
    await until(() => loads.every(({ sent }) => sent.filter(({ startedAt }) => startedAt > revokedAt).length > 20))
    await Promise.all(loads.map((running) => running.stop()))
    for (const { sent } of loads) assert.deepEqual(acceptedAfterRevoke(sent, revokedAt), [])
    const busy = await measureMachineLoad()
    for (const { endedAt } of streams) assert.ok((await endedAt) - chatRevokedAt < STREAM_MS * busy)
    for (const served of both) {
      assert.equal((await fetch(served.chat(chat, 'events'))).status, 401)
      await served.stop()
    }
  })

  test('has exactly the acknowledged messages after a race of posts and revoke', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t, engine)
    const both = [await demo.start(), await demo.start()]
    for (let round = 0; round < 3; round++) {
      const link = await demo.mintHook(`race${round}`)
      const loads = both.map((served) => load(served.hook(link), { clients: 8, messages: 5000 }))
      await Promise.all(loads.map(({ begun }) => begun))
      await pause(by.below(200))
      await revoke(demo, link)
      await until(() => loads.every((running) => (statuses(running)['401'] ?? 0) > 50))
      await Promise.all(loads.map((running) => running.stop()))
      const stored = (await demo.inbound(link)).map(({ content }) => content)
      const outcome = compare(loads, stored)
      t.diagnostic(`${outcome.acknowledged} acknowledged, ${stored.length} stored`)
      assert.deepEqual([outcome.lost, outcome.refused, outcome.doubled, outcome.foreign], [[], [], [], []])
      assert.equal(stored.length, outcome.acknowledged)
      for (const running of loads) assert.deepEqual(Object.keys(statuses(running)).sort(), ['204', '401'])
    }
    for (const served of both) await served.stop()
  })
})

suite('the revoke tests themselves', () => {
  test('detect a server that caches a revoked token', () => {
    const sent = (startedAt: number, status: number): Sent => ({ name: `${startedAt}`, startedAt, status })
    const cached = [sent(1, 204), sent(9, 204), sent(11, 204), sent(12, 401)]
    assert.deepEqual(acceptedAfterRevoke(cached, 10), [cached[2]])
  })

  test('detect a stored message that was refused', () => {
    const record: Pick<Load, 'sent'> = { sent: [{ name: 'a', startedAt: 1, status: 401 }] }
    assert.deepEqual(compare([record], [Buffer.from('a x')]).refused, ['a'])
  })
})
