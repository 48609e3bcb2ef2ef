// Newline-delimited JSON-RPC: chunking does not matter, and no input breaks the connection.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { suite, test } from 'node:test'
import { setImmediate as breathe } from 'node:timers/promises'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import fc from 'fast-check'
import { z } from 'zod'
import { type FakeClock, fakeClock } from '../../test/support/clock.ts'
import { until } from '../../test/support/until.ts'
import { createMcpServer } from '../faces/mcp.ts'
import { createToolList } from '../faces/tool-list.ts'
import { throwUncaught } from '../lib/fault-boundary.ts'
import { FlowLimiter, type FlowLimits } from '../lib/flow-limiter.ts'
import { LineTransport, type RpcReply } from './line-transport.ts'

interface Line {
  readonly id?: unknown
  readonly result?: { readonly echo?: unknown }
  readonly error?: { readonly code: number; readonly message: string }
}

interface Session {
  readonly ours: Duplex
  readonly lines: Line[]
  send(...parts: (string | Uint8Array)[]): void
  /** All responses, after this side was closed. */
  finish(): Promise<Line[]>
}

/** `echo` answers at once, `later` when the test releases it; other methods go to the official server. */
function open(later: (id: unknown) => Promise<unknown> = async () => {}): Session {
  const [ours, theirs] = duplexPair()
  const intercept = ({ id, method, params }: { id: unknown; method: string; params?: object | undefined }) => {
    if (method === 'echo') return Promise.resolve<RpcReply>({ result: { echo: params ?? null } })
    return method === 'later' ? later(id).then((): RpcReply => ({ result: {} })) : undefined
  }
  const transport = new LineTransport(theirs, { intercept, onFault: throwUncaught })
  const list = createToolList([{ name: 'tell', when: 'w', input: z.object({}), run: async () => 'told' }])
  const server = () =>
    createMcpServer({ list, requestContext: () => undefined, onError: assert.fail }, () => list.definitions)
  serveStdio(server, { transport })
  const lines: Line[] = []
  let rest = ''
  ours.setEncoding('utf8')
  ours.on('data', (text: string) => {
    const parts = `${rest}${text}`.split('\n')
    rest = parts.pop() ?? ''
    for (const part of parts) lines.push(JSON.parse(part))
  })
  return {
    ours,
    lines,
    send: (...parts) => {
      for (const part of parts) ours.write(part)
    },
    finish: async () => {
      ours.end()
      if (!ours.readableEnded) await once(ours, 'end')
      assert.equal(rest, '', 'no half a line')
      return lines
    },
  }
}

const line = (message: unknown): string => `${JSON.stringify(message)}\n`
const echo = (id: unknown, params: object = {}): string => line({ jsonrpc: '2.0', id, method: 'echo', params })

/** The responses to one text. */
async function answersTo(...parts: (string | Uint8Array)[]): Promise<Line[]> {
  const session = open()
  session.send(...parts)
  return session.finish()
}

/** Concurrent requests may be answered in any order. */
const inOrder = (answers: readonly Line[]): string[] => answers.map((answer) => JSON.stringify(answer)).sort()

suite('lines', () => {
  test('chunk boundaries do not change the responses', async () => {
    const message = fc.oneof(
      fc.record({ id: fc.integer(), params: fc.dictionary(fc.string(), fc.string({ unit: 'binary' })) }),
      fc.constantFrom('', '\r', ' ', 'x', '[]', '{"jsonrpc":"2.0","method":"notifications/initialized"}'),
    )
    const end = fc.constantFrom('\n', '\r\n')
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(message, end), { maxLength: 8 }),
        fc.infiniteStream(fc.integer({ min: 1, max: 40 })),
        async (messages, cuts) => {
          const text = messages
            .map(([said, ending], index) =>
              typeof said === 'string' ? said + ending : echo(`${index}`, said.params).trimEnd() + ending,
            )
            .join('')
          const bytes = Buffer.from(text)
          const session = open()
          for (let at = 0; at < bytes.length; ) {
            const size = cuts.next().value ?? 1
            session.send(bytes.subarray(at, at + size))
            at += size
            if (size % 2) await breathe()
          }
          const whole = await answersTo(bytes)
          assert.deepEqual(inOrder(await session.finish()), inOrder(whole))
          const asked = messages.flatMap(([said]) =>
            typeof said === 'string' ? [] : [JSON.parse(JSON.stringify(said.params))],
          )
          assert.deepEqual(
            whole.flatMap(({ result }) => (result ? [result.echo] : [])),
            asked,
          )
        },
      ),
      { numRuns: 60 },
    )
  })

  test('no bytes break the connection, and the next request is answered', async () => {
    const junk = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
      fc.json().map((text) => Buffer.from(`${text}\n`)),
      fc
        .record(
          {
            jsonrpc: fc.constantFrom<unknown>('2.0', '1.0', 2),
            id: fc.oneof(fc.integer(), fc.string(), fc.jsonValue()),
            method: fc.oneof(
              fc.constantFrom('tools/call', 'tools/list', 'initialize', 'ping', '__proto__', 'server/discover'),
              fc.jsonValue(),
            ),
            params: fc.jsonValue(),
          },
          { requiredKeys: [] },
        )
        .map((message) => Buffer.from(line(message))),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(junk, { maxLength: 12 }), async (parts) => {
        const answers = await answersTo(...parts, '\n', echo('last', { here: true }))
        assert.deepEqual(answers.find(({ id }) => id === 'last')?.result, { echo: { here: true } })
      }),
      { numRuns: 150 },
    )
  })
})

suite('a line with', () => {
  const CASES: readonly [string, string | Uint8Array, unknown, number][] = [
    ['no JSON', 'hello\n', null, -32700],
    ['half of a JSON text', '{"jsonrpc":"2.0"\n', null, -32700],
    [
      'invalid UTF-8 in a text',
      Buffer.from([...Buffer.from('{"a":"'), 0xff, 0xfe, ...Buffer.from('"}\n')]),
      null,
      -32700,
    ],
    ['a number', '5\n', null, -32600],
    ['null', 'null\n', null, -32600],
    ['an empty array', '[]\n', null, -32600],
    ['a batch', `[${echo(1).trim()},${echo(2).trim()}]\n`, null, -32600],
    ['no jsonrpc', line({ id: 1, method: 'ping' }), 1, -32600],
    ['jsonrpc 1.0', line({ jsonrpc: '1.0', id: 1, method: 'ping' }), 1, -32600],
    ['jsonrpc as a number', line({ jsonrpc: 2, id: 1, method: 'ping' }), 1, -32600],
    ['id null', line({ jsonrpc: '2.0', id: null, method: 'ping' }), null, -32600],
    ['id with a fraction', line({ jsonrpc: '2.0', id: 1.5, method: 'ping' }), null, -32600],
    ['id beyond what JSON gives back', '{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}\n', null, -32600],
    ['id as an object', line({ jsonrpc: '2.0', id: {}, method: 'ping' }), null, -32600],
    ['no method', line({ jsonrpc: '2.0', id: 1 }), 1, -32600],
    ['method as a number', line({ jsonrpc: '2.0', id: 1, method: 7 }), 1, -32600],
    ['method __proto__', line({ jsonrpc: '2.0', id: 1, method: '__proto__' }), 1, -32601],
    ['method constructor', line({ jsonrpc: '2.0', id: 1, method: 'constructor' }), 1, -32601],
    ['a method of 64 KiB', line({ jsonrpc: '2.0', id: 1, method: 'm'.repeat(65_536) }), 1, -32601],
    ['params as an array', line({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: [] }), 1, -32602],
    ['params null', line({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: null }), 1, -32602],
    ['_meta as a number', line({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: 5 } }), 1, -32602],
    ['a call without a name', line({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} }), 1, -32602],
    ['an unknown tool', line({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'no' } }), 1, -32602],
    [
      'a tool in another case',
      line({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'Tell' } }),
      1,
      -32602,
    ],
  ]
  for (const [what, sent, id, code] of CASES) {
    test(`${what} gets error ${code}, and the connection stays open`, async () => {
      const answers = await answersTo(sent, echo('next'))
      const fault = answers.find((answer) => answer.id !== 'next')
      assert.deepEqual([fault?.id, fault?.error?.code], [id, code])
      assert.ok((fault?.error?.message ?? '').length > 0)
      assert.equal(answers.length, 2)
    })
  }

  const QUIET: readonly [string, string][] = [
    [
      'a notification of a method that needs an answer',
      line({ jsonrpc: '2.0', method: 'tools/call', params: { name: 'tell' } }),
    ],
    ['a notification of a hidden method', line({ jsonrpc: '2.0', method: 'echo' })],
    ['a notification with odd params', line({ jsonrpc: '2.0', method: 'tools/list', params: 5 })],
    ['an answer', line({ jsonrpc: '2.0', id: 4, result: {} })],
    ['a blank line', '   \r\n\n'],
  ]
  for (const [what, sent] of QUIET) {
    test(`${what} gets no response`, async () => {
      assert.deepEqual(
        (await answersTo(sent, echo('next'))).map(({ id }) => id),
        ['next'],
      )
    })
  }

  test('an id may be a string of 1 MiB, and a string and a number are different ids', async () => {
    const long = 'i'.repeat(1_000_000)
    const answers = await answersTo(echo(long), echo(1), echo('1'))
    assert.deepEqual(
      answers.map(({ id }) => id),
      [long, 1, '1'],
    )
  })

  test('a second request with a pending id is refused', async () => {
    const gate = Promise.withResolvers<void>()
    const session = open(() => gate.promise)
    session.send(line({ jsonrpc: '2.0', id: 1, method: 'later' }), echo(1, { second: true }), echo(2))
    await until(() => session.lines.length === 2)
    assert.deepEqual(
      session.lines.map(({ id, error }) => [id, error?.code]),
      [
        [1, -32600],
        [2, undefined],
      ],
    )
    gate.resolve()
    assert.deepEqual((await session.finish()).at(-1), { jsonrpc: '2.0', id: 1, result: {} })
  })

  test('a cancelled call still gets its response', async () => {
    const cancel = line({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
    const call = line({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'tell' } })
    assert.deepEqual(
      (await answersTo(call, cancel)).map(({ id }) => id),
      [1],
    )
  })
})

suite('limits', () => {
  const MIB = 1024 * 1024

  test('a line of 4 MiB is answered; a longer one gets an error and closes the connection', async () => {
    const fill = 4 * MIB - echo(1, { text: '' }).trim().length
    const [answer] = await answersTo(echo(1, { text: 'x'.repeat(fill) }))
    assert.equal(answer?.id, 1)
    const session = open()
    session.send(echo(1, { text: 'x'.repeat(fill + 1) }), echo(2))
    await once(session.ours, 'end')
    assert.deepEqual(session.lines, [
      { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'parse error: line is longer than 4194304 bytes' } },
    ])
  })

  test('input without a line end is refused at the same limit', async () => {
    const session = open()
    session.ours.on('error', () => {})
    const block = Buffer.alloc(MIB, 'x')
    session.send(...Array.from({ length: 8 }, () => block))
    await once(session.ours, 'end')
    assert.equal(session.lines[0]?.error?.code, -32700)
  })

  test('an incomplete last line is ignored', async () => {
    assert.deepEqual(
      (await answersTo(echo(1), '{"jsonrpc":"2.0","id":2,"meth')).map(({ id }) => id),
      [1],
    )
  })

  test('at most 64 requests are pending, and all are answered', async () => {
    const gates: (() => void)[] = []
    let most = 0
    const session = open(() => {
      const gate = Promise.withResolvers<void>()
      gates.push(gate.resolve)
      most = Math.max(most, gates.length)
      return gate.promise
    })
    for (let id = 0; id < 200; id++) session.send(line({ jsonrpc: '2.0', id, method: 'later' }))
    await until(() => gates.length === 64)
    for (let round = 0; round < 20; round++) await breathe()
    assert.equal(gates.length, 64)
    const opening = setInterval(() => gates.splice(0).forEach((go) => void go()), 1)
    const answers = await session.finish()
    clearInterval(opening)
    assert.deepEqual([answers.length, most], [200, 64])
  })

  test('stops reading from a client that does not read', async () => {
    const [ours, theirs] = duplexPair()
    let asked = 0
    const transport = new LineTransport(theirs, {
      intercept: async () => {
        asked++
        return { result: { text: 'x'.repeat(10_000) } }
      },
      onFault: throwUncaught,
    })
    await transport.start()
    for (let id = 0; id < 1000; id++) ours.write(echo(id))
    await until(() => theirs.writableLength > MIB)
    for (let round = 0; round < 50; round++) await breathe()
    const before = asked
    assert.ok(before < 300, `${before} were asked`)
    assert.ok(theirs.writableLength < 3 * MIB)
    let read = 0
    ours.on('data', (chunk: Buffer) => {
      read += chunk.length
    })
    await until(() => asked === 1000)
    ours.end()
    await once(ours, 'end')
    assert.ok(read > 10_000_000)
  })
})

suite('an exception of a handler', () => {
  for (const [what, intercept] of Object.entries({
    'at once': () => {
      throw new TypeError('odd request')
    },
    'in its reply': async () => {
      throw new TypeError('odd request')
    },
    'of a reply that is no JSON': async () => ({ result: { count: 1n } }),
  }))
    test(`${what} closes this connection and is reported once`, async () => {
      const [[ours, theirs], [healthy, served]] = [duplexPair(), duplexPair()]
      const faults: unknown[] = []
      const onFault = (error: unknown): void => void faults.push(error)
      await new LineTransport(theirs, { intercept, onFault }).start()
      await new LineTransport(served, { intercept: async () => ({ result: {} }), onFault }).start()
      ours.on('error', () => undefined)
      ours.write(echo(1))
      await once(theirs, 'close')
      assert.equal(faults.length, 1)
      assert.ok(faults[0] instanceof TypeError)
      healthy.write(echo(2))
      const [line] = await once(healthy, 'data')
      assert.deepEqual(JSON.parse(String(line)), { jsonrpc: '2.0', id: 2, result: {} })
      for (const side of [ours, healthy]) side.destroy()
    })
})

suite('a flood', () => {
  const UNLIMITED: FlowLimits = { bytesPerSecond: 0, linesPerSecond: 0, burstS: 1 }

  interface Flood {
    readonly clock: FakeClock
    /** Requests that were handled. */
    readonly handled: unknown[]
    connect(): Duplex
  }

  /** Connections of one socket. */
  function openFlood(limits: Partial<FlowLimits>): Flood {
    const clock = fakeClock()
    const flow = new FlowLimiter({ ...UNLIMITED, ...limits }, clock)
    const handled: unknown[] = []
    return {
      clock,
      handled,
      connect: () => {
        const [ours, theirs] = duplexPair()
        const transport = new LineTransport(theirs, {
          flow,
          onFault: throwUncaught,
          intercept: async ({ id }) => {
            handled.push(id)
            return { result: {} }
          },
        })
        void transport.start()
        ours.resume()
        return ours
      },
    }
  }

  const manyTurns = async (): Promise<void> => {
    for (let round = 0; round < 100; round++) await breathe()
  }

  const LINES: readonly [string, (id: number) => string][] = [
    ['requests', (id) => echo(id)],
    ['notifications', () => line({ jsonrpc: '2.0', method: 'notifications/cancelled' })],
    ['malformed lines', () => 'no JSON\n'],
    ['answers', (id) => line({ jsonrpc: '2.0', id, result: {} })],
    ['empty lines', () => '\n'],
  ]
  for (const [what, lineOf] of LINES) {
    test(`of ${what} delays the next request until the limit allows it, and loses none`, async () => {
      const { clock, handled, connect } = openFlood({ linesPerSecond: 100 })
      const ours = connect()
      for (let id = 0; id < 99; id++) ours.write(lineOf(id))
      ours.write(echo('within'))
      ours.write(echo('beyond'))
      await until(() => handled.includes('within'))
      await manyTurns()
      assert.ok(!handled.includes('beyond'))
      clock.advance(9)
      await manyTurns()
      assert.ok(!handled.includes('beyond'))
      clock.advance(1)
      await until(() => handled.includes('beyond'))
    })
  }

  test('is handled a few lines per turn of the event loop', async () => {
    const { handled, connect } = openFlood({})
    const ours = connect()
    ours.write(Array.from({ length: 100 }, (_, id) => echo(id)).join(''))
    for (let before = 0; before < 100; before = handled.length) {
      await breathe()
      assert.ok(handled.length - before <= 4, `${handled.length - before} lines in one turn`)
    }
  })

  test('of bytes delays the next line, also without a line end', async () => {
    const { clock, handled, connect } = openFlood({ bytesPerSecond: 100_000 })
    const ours = connect()
    ours.write('x'.repeat(120_000))
    await manyTurns()
    ours.write(`\n${echo('next')}`)
    await manyTurns()
    assert.deepEqual(handled, [])
    clock.advance(1000)
    await until(() => handled.length === 1)
  })

  test('counts responses as bytes', async () => {
    const { clock, handled, connect } = openFlood({ bytesPerSecond: 10_000 })
    const ours = connect()
    // The response repeats the id.
    ours.write(echo('i'.repeat(6000)))
    await until(() => handled.length === 1)
    ours.write(echo('next'))
    await manyTurns()
    assert.equal(handled.length, 1)
    clock.advance(1000)
    await until(() => handled.length === 2)
  })

  test('on one connection does not keep another from its turn', async () => {
    const { clock, handled, connect } = openFlood({ linesPerSecond: 100 })
    const [loud, quiet] = [connect(), connect()]
    for (let id = 0; id < 5000; id++) loud.write(echo(id))
    await until(() => handled.length >= 100)
    quiet.write(echo('quiet'))
    await manyTurns()
    clock.advance(100)
    await until(() => handled.includes('quiet'))
    assert.ok(handled.length < 120)
  })

  test('is dropped when the socket closes, but not lines within the limits', async () => {
    for (const [linesPerSecond, expected] of [
      [0, 20],
      [10, 10],
    ] as const) {
      const [ours, theirs] = duplexPair()
      let handled = 0
      const flow = new FlowLimiter({ ...UNLIMITED, linesPerSecond }, fakeClock())
      const intercept = async (): Promise<RpcReply> => {
        handled++
        return { result: {} }
      }
      const transport = new LineTransport(theirs, { flow, intercept, onFault: throwUncaught })
      await transport.start()
      ours.resume()
      ours.write(Array.from({ length: 20 }, (_, id) => echo(id)).join(''))
      await until(() => handled >= Math.min(expected, 4))
      if (linesPerSecond > 0) await until(() => handled >= expected)
      await transport.drain()
      assert.ok(linesPerSecond === 0 ? handled === 20 : handled < 20, `${handled} of 20`)
    }
  })
})
