import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { CachedResponseHead } from './cached-response-head.ts'

const HEADERS = ['Content-Type', 'text/plain', 'Content-Length', '2', 'Access-Control-Allow-Origin', '*']

/** Responses to requests on one connection each, as bytes, without what changes every second. */
async function answersOf(t: TestContext, listener: RequestListener, requests: readonly string[]): Promise<string[]> {
  const server = createServer({ keepAliveTimeout: 65_000 }, listener).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : assert.fail()
  const answers: string[] = []
  for (const request of requests) {
    const socket = connect(port, '127.0.0.1')
    socket.end(request)
    let text = ''
    for await (const chunk of socket) text += chunk
    answers.push(text.replaceAll(/^Date: .+$/gm, 'Date: now'))
  }
  return answers
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n'
const REQUESTS = [
  `${GET}\r\n`,
  `${GET}\r\n`,
  `${GET}Connection: close\r\n\r\n`,
  `${GET}\r\n`,
  `${GET}\r\n${GET}\r\n${GET}\r\n`,
  'GET / HTTP/1.0\r\n\r\n',
  `HEAD / HTTP/1.1\r\nHost: a\r\n\r\n`,
  `${GET}\r\n`,
]

for (const [what, status, headers, body] of [
  ['with a body', 401, HEADERS, 'no'],
  ['without one', 204, HEADERS.slice(4), undefined],
] as const)
  test(`answers ${what} with the same bytes as a head that Node builds each time`, async (t) => {
    const head = new CachedResponseHead(status, headers)
    const idOf = (at: number): string => `id-${at}`
    let [repeated, plain] = [0, 0]
    const ours = await answersOf(
      t,
      (_, response) => void head.write(response, idOf(repeated++)).end(body, 'latin1'),
      REQUESTS,
    )
    const nodes = await answersOf(
      t,
      (_, response) => void response.writeHead(status, [...headers, 'X-Request-Id', idOf(plain++)]).end(body, 'latin1'),
      REQUESTS,
    )
    assert.deepEqual(ours, nodes)
    assert.match(ours[1] ?? '', /X-Request-Id: id-1\r\n/)
  })

test('tells the client that the connection will close', async (t) => {
  const head = new CachedResponseHead(204, [])
  let isStopping = false
  const answers = await answersOf(
    t,
    (_, response) => {
      if (isStopping) response.setHeader('Connection', 'close')
      isStopping = true
      head.write(response, 'id').end()
    },
    [`${GET}\r\n`, `${GET}\r\n`],
  )
  assert.deepEqual(
    answers.map((answer) => /^Connection: (.+)\r$/m.exec(answer)?.[1]),
    ['keep-alive', 'close'],
  )
})

test('rebuilds the head with a new date every second', async (t) => {
  const head = new CachedResponseHead(204, [])
  const times = [0, 999, 1000, 1999]
  let built = 0
  const counts: number[] = []
  t.mock.timers.enable({ apis: ['Date'] })
  await answersOf(
    t,
    (_, response) => {
      t.mock.timers.setTime(times[counts.length] ?? 0)
      const { writeHead } = response
      const counted = (...args: [number]): typeof response => {
        built++
        return writeHead.apply(response, args)
      }
      Object.assign(response, { writeHead: counted })
      head.write(response, 'id').end()
      counts.push(built)
    },
    times.map(() => `${GET}\r\n`),
  )
  assert.deepEqual(counts, [1, 1, 2, 2])
})
