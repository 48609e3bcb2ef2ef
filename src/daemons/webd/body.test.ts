import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { refused } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { Budget, readBody } from './body.ts'
import { Visit } from './visit.ts'

const MAX = 1000

/** A server that reads bodies and holds them until it is told to let go. */
async function open(t: TestContext, budget: Budget) {
  const outcomes: (number | unknown)[] = []
  let visits = 0
  const server = createServer(async (asked, response) => {
    visits++
    const path = { place: 'hook', token: 'x', rest: undefined, query: '' } as const
    const visit = new Visit(asked, response, { path, client: undefined, id: 'x', record: () => {} })
    try {
      const body = await readBody(visit, MAX, budget)
      outcomes.push(body.byteLength)
      budget.give(body.byteLength)
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

/** How much can be taken of it. */
function left(budget: Budget): number {
  let count = 0
  while (budget.take(1)) count++
  budget.give(count)
  return count
}

test('a budget is what all bodies together may have', () => {
  const budget = new Budget(10)
  assert.ok(budget.take(6))
  assert.ok(!budget.take(5))
  assert.ok(budget.take(4))
  budget.give(10)
  assert.equal(left(budget), 10)
})

test('bodies that end, break off, are too large or over the budget give back exactly what they took', async (t) => {
  const budget = new Budget(3000)
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
      // Of whoever is gone before he has come nobody hears.
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
      assert.ok(refused(outcome instanceof Error && /larger/.test(outcome.message) ? 'too_large' : 'invalid')(outcome))
})

test('more bodies at once than there is room for are refused for now, not gathered', async (t) => {
  const budget = new Budget(1500)
  const { send, outcomes } = await open(t, budget)
  const [first, second] = [send(), send()]
  first.write('x'.repeat(900))
  await until(() => left(budget) === 600)
  second.write('x'.repeat(900))
  await until(() => outcomes.length === 1)
  assert.ok(refused('unavailable')(outcomes[0]))
  first.end()
  await until(() => outcomes.length === 2)
  assert.equal(outcomes[1], 900)
  assert.equal(left(budget), 1500)
  second.destroy()
})
