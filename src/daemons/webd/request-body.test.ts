import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { LinkRequest } from './link-request.ts'
import { BodyBudget, readBody } from './request-body.ts'

const MAX = 1000

/** A server that reads bodies and records the outcome. */
async function open(t: TestContext, budget: BodyBudget) {
  const outcomes: (number | unknown)[] = []
  let visits = 0
  const server = createServer(async (asked, response) => {
    visits++
    const path = { kind: 'hook', token: 'x', rest: undefined, query: '' } as const
    const visit = new LinkRequest(asked, response, { path, client: undefined, id: 'x', logResponse: () => {} })
    try {
      const body = await readBody(visit, MAX, budget)
      outcomes.push(body.byteLength)
      budget.release(body.byteLength)
      response.end()
    } catch (error) {
      outcomes.push(error)
      response.writeHead(400).end()
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const address = server.address()
  assert.ok(address && typeof address === 'object')
  const { port } = address
  const send = () => {
    const asking = request({ port, host: '127.0.0.1', method: 'POST', agent: false })
    asking.on('error', () => {})
    asking.on('response', (answer: IncomingMessage) => answer.resume())
    return asking
  }
  return { outcomes, send, visits: () => visits }
}

/** The free bytes. */
function left(budget: BodyBudget): number {
  let count = 0
  while (budget.reserve(1)) count++
  budget.release(count)
  return count
}

test('the budget limits all bodies together', () => {
  const budget = new BodyBudget(10)
  assert.ok(budget.reserve(6))
  assert.ok(!budget.reserve(5))
  assert.ok(budget.reserve(4))
  budget.release(10)
  assert.equal(left(budget), 10)
})

test('bodies release exactly what they reserved, however they end', async (t) => {
  const budget = new BodyBudget(3000)
  const { send, outcomes, visits } = await open(t, budget)
  const one = async (bytes: number, how: 'end' | 'cut'): Promise<void> => {
    const asking = send()
    const [before, visited] = [outcomes.length, visits()]
    for (let sent = 0; sent < bytes; sent += 100) {
      asking.write('x'.repeat(100))
      await new Promise(setImmediate)
    }
    if (how === 'end') asking.end()
    else {
      // A client that disconnects earlier is never seen.
      await until(() => visits() > visited)
      asking.destroy()
    }
    await until(() => outcomes.length > before)
  }
  for (let time = 0; time < 3; time++) {
    await one(500, 'end')
    await one(300, 'cut')
    await one(1500, 'end')
    await one(1500, 'cut')
    await one(0, 'end')
  }
  assert.equal(left(budget), 3000)
  for (const outcome of outcomes)
    if (typeof outcome !== 'number')
      assert.ok(
        isRefusal(outcome instanceof Error && /larger/.test(outcome.message) ? 'too_large' : 'invalid')(outcome),
      )
})

test('bodies over the budget are refused as unavailable, not buffered', async (t) => {
  const budget = new BodyBudget(1500)
  const { send, outcomes } = await open(t, budget)
  const [first, second] = [send(), send()]
  first.write('x'.repeat(900))
  await until(() => left(budget) === 600)
  second.write('x'.repeat(900))
  await until(() => outcomes.length === 1)
  assert.ok(isRefusal('unavailable')(outcomes[0]))
  first.end()
  await until(() => outcomes.length === 2)
  assert.equal(outcomes[1], 900)
  assert.equal(left(budget), 1500)
  second.destroy()
})
