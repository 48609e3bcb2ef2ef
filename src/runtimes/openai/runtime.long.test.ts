import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import {
  type ChatEndpoint,
  chatEndpoint,
  type EndpointReply,
  events,
  replyCutOff,
  replyError,
  replyText,
  replyToolCalls,
} from '../../../test/support/chat-endpoint.ts'
import { needs } from '../../../test/support/needs.ts'
import { isRunFault, openRuntime } from '../../../test/support/runtimes.ts'
import {
  chatDirectory,
  type FakeTool,
  ToolRefusal,
  type ToolSocket,
  toolSocket,
} from '../../../test/support/tool-socket.ts'
import { until } from '../../../test/support/until.ts'
import type { ModelUsage } from '../../core/turns/costs.ts'
import { sumWholeCents } from '../../core/turns/turn-cost.ts'
import { type AgentRunResult, ANSWER_MAX, type Job, RunFault } from '../runtime.ts'

interface Openai {
  endpoint: ChatEndpoint
  socket: ToolSocket
  ask(prompt: string, given?: Partial<Job>): Promise<AgentRunResult>
}

async function open(
  t: TestContext,
  tools?: Record<string, FakeTool>,
  settings: Record<string, string> = {},
): Promise<Openai> {
  const [socket, endpoint] = [await toolSocket(t, tools), await chatEndpoint(t)]
  const runtime = await openRuntime(t, 'openai', { OPENAI_BASE_URL: endpoint.url, OPENAI_MODEL: 'small', ...settings })
  return { endpoint, socket, ask: (prompt, given) => runtime.run(socket.job({ prompt, ...given })) }
}

const PRICES = { OPENAI_PRICE_INPUT: '1000', OPENAI_PRICE_OUTPUT: '5000' }

suite('the runtime openai', needs('open checkout'), () => {
  test('returns the text of the model, with its usage', async (t) => {
    const { ask, endpoint } = await open(t, {}, PRICES)
    endpoint.answer(replyText('Grüße 😀, and more'))
    let used: readonly ModelUsage[] = []
    const { result, sessionId } = await ask('hello', { onUsage: (each) => (used = each) })
    assert.equal(result, 'Grüße 😀, and more')
    assert.ok(sessionId)
    assert.deepEqual(used, [{ model: 'small', input: 1000, output: 100, cents: 1.5 }])
    const [asked] = endpoint.asked
    assert.equal(asked?.url, '/v1/chat/completions')
    assert.equal(asked?.headers.authorization, undefined)
    assert.deepEqual([asked?.body.model, asked?.body.stream], ['small', true])
    assert.deepEqual(
      asked?.body.messages.map(({ role }) => role),
      ['system', 'user'],
    )
    assert.equal(asked?.body.messages[1]?.content, 'hello')
  })

  test('passes the answer on as it is written, and begins again after tool calls and retries', async (t) => {
    const { ask, endpoint, socket } = await open(t, { add: () => ({ sum: 3 }) })
    const drafts: string[] = ['']
    const draft = {
      add: (text: string) => drafts.push(`${drafts.pop() ?? ''}${text}`),
      restart: () => void (drafts.at(-1) === '' || drafts.push('')),
    }
    const half = { choices: [{ index: 0, delta: { content: 'Let me ' } }] }
    endpoint.answer(
      (response) => events(response, [half], false) ?? setImmediate(() => response.destroy()),
      replyToolCalls({ name: 'add', args: '{}' }),
      replyText('It is three 😀'),
    )
    await ask('what is 1 + 2?', { draft })
    assert.deepEqual(drafts, ['Let me ', 'It is three 😀'])
    const log = readFileSync(socket.job().logFile, 'utf8')
    assert.match(log, /^\{"outcome":\{"result":"It is three 😀"/m)
    assert.doesNotMatch(log, /"draft"/, 'the log has only the whole text')
  })

  test('calls the tools that the model requests and sends it the results', async (t) => {
    const { ask, endpoint, socket } = await open(t, {
      add: ({ a, b }) => ({ sum: Number(a) + Number(b) }),
      'groups.list': () => {
        throw new ToolRefusal('not permitted')
      },
    })
    endpoint.answer(
      replyToolCalls({ name: 'add', args: '{"a": 1, "b": 2}' }, { name: 'groups__list', args: '{}' }),
      replyToolCalls({ name: 'nothing', args: '' }, { name: 'add', args: '{"a": 1,' }, { name: 'add', args: '[]' }),
      replyText('three'),
    )
    assert.equal((await ask('what is 1 + 2?')).result, 'three')
    assert.deepEqual(socket.turns, [{ 'svc/turn': 't1', 'svc/fence': 7 }])
    assert.deepEqual(socket.asked, ['add {"a":1,"b":2}', 'groups.list {}', 'nothing {}'])
    assert.deepEqual(
      endpoint.asked[0]?.body.tools?.map((tool) => tool.function.name),
      ['reply', 'add', 'groups__list'],
    )
    const told = endpoint.asked[2]?.body.messages.filter(({ role }) => role === 'tool')
    assert.deepEqual(
      told?.map(({ content, tool_call_id }) => `${tool_call_id} ${content}`),
      [
        'call-0 {"sum":3}',
        'call-1 error: not permitted',
        'call-0 error: Tool nothing not found',
        'call-1 error: the arguments are not a JSON object',
        'call-2 error: the arguments are not a JSON object',
      ],
    )
  })

  test('resumes and forks a session, in a file that only the agent can read', async (t) => {
    const { ask, endpoint, socket } = await open(t)
    endpoint.answer(replyText('noted'))
    const { sessionId = '' } = await ask('my name is Kim')
    const again = await ask('what is my name?', { sessionId })
    assert.equal(again.sessionId, sessionId)
    assert.deepEqual(
      endpoint.asked[1]?.body.messages.slice(1).map(({ content }) => content),
      ['my name is Kim', 'noted', 'what is my name?'],
    )
    const file = join(socket.home, '.svc', 'sessions', `${sessionId}.json`)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const before = readFileSync(file, 'utf8')
    const fork = await ask('and here?', { parentSessionId: sessionId })
    assert.notEqual(fork.sessionId, sessionId)
    assert.equal(endpoint.asked[2]?.body.messages.length, 6)
    assert.equal(readFileSync(file, 'utf8'), before)
    assert.equal(readdirSync(join(socket.home, '.svc', 'sessions')).length, 2)
  })

  suite('with images', () => {
    const PNG = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
    const BLIND = replyError(404, { message: 'No endpoints found that support image input' })

    async function openWithImage(t: TestContext, settings?: Record<string, string>) {
      const on = await open(t, {}, settings)
      const path = join(on.socket.home, 'a.png')
      writeFileSync(path, PNG)
      const file = { name: 'a.png', type: 'image/png', size: PNG.length, path }
      const messages = [{ id: 'm1', sender: 'anon:1', text: '', jid: 'web:main', files: [file] }]
      const contents = () => on.endpoint.asked.map(({ body }) => body.messages.at(-1)?.content)
      const parts = [
        { type: 'text', text: 'look' },
        { type: 'text', text: path },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG.toString('base64')}` } },
      ]
      return { ...on, path, messages, contents, parts }
    }

    test('shows them to the model, and keeps only the text in its session', async (t) => {
      const { ask, endpoint, messages, contents, parts } = await openWithImage(t)
      endpoint.answer(replyText('a cat'))
      const { sessionId } = await ask('look', { messages })
      assert.deepEqual(contents(), [parts])
      await ask('and now?', { sessionId })
      assert.deepEqual(
        endpoint.asked[1]?.body.messages.slice(1).map(({ content }) => content),
        ['look', 'a cat', 'and now?'],
      )
    })

    test('repeats a refused request without them, and does so no more for a model that cannot see', async (t) => {
      const { ask, endpoint, messages, contents, parts } = await openWithImage(t)
      // Nothing is known about the model after an error of a single image.
      endpoint.answer(replyError(400, { message: 'Could not process image' }), replyText('which image?'))
      assert.equal((await ask('look', { messages })).result, 'which image?')
      endpoint.answer(BLIND, replyText('I cannot see'))
      let used: readonly ModelUsage[] = []
      assert.equal((await ask('look', { messages, onUsage: (each) => (used = each) })).result, 'I cannot see')
      assert.deepEqual([used[0]?.input, used[0]?.output], [1000, 100])
      await ask('look', { messages })
      assert.deepEqual(contents(), [parts, 'look', parts, 'look', 'look'])
      await ask('look', { messages, folder: 'other' })
      assert.deepEqual(contents().at(-1), parts)
    })

    test('tells an error that images have nothing to do with', async (t) => {
      const { ask, endpoint, messages, contents, parts } = await openWithImage(t)
      endpoint.answer(replyError(400, { message: 'no such model' }))
      await assert.rejects(ask('look', { messages }), isRunFault('terminal', /no such model/))
      assert.deepEqual(contents(), [parts, 'look'])
    })

    test('lets the setting and the folder decide', async (t) => {
      const { ask, endpoint, messages, contents, parts } = await openWithImage(t, { OPENAI_VISION: 'false' })
      endpoint.answer(replyText('what?'))
      await ask('look', { messages })
      await ask('look', { messages, config: { vision: 'true' } })
      endpoint.answer(BLIND, replyText('what?'))
      await ask('look', { messages, config: { vision: true } })
      await ask('look', { messages, config: { vision: 'true' } })
      assert.deepEqual(contents(), ['look', parts, parts, 'look', parts])
    })

    test('leaves out one that was removed', async (t) => {
      const { ask, endpoint, messages, contents, path } = await openWithImage(t)
      rmSync(path)
      endpoint.answer(replyText('what?'))
      await ask('look', { messages })
      assert.deepEqual(contents(), ['look'])
    })
  })

  test("keeps the session of a visitors' chat in that chat and reads guides from the workspace", async (t) => {
    const { ask, endpoint, socket } = await open(t)
    const chat = chatDirectory(t)
    writeFileSync(join(socket.home, 'PERSONA.md'), 'You are Kim.')
    endpoint.answer(replyText('hello'), replyText('retryable'))
    const { sessionId = '' } = await ask('first', { chat })
    await ask('second', { chat, sessionId })
    assert.match(String(endpoint.asked[1]?.body.messages[0]?.content), /You are Kim\./)
    assert.equal(endpoint.asked[1]?.body.messages[1]?.content, 'first')
    assert.deepEqual(readdirSync(join(chat.path, '.svc', 'sessions')), [`${sessionId}.json`])
    await assert.rejects(ask('third', { sessionId }), isRunFault('session', /its session does not exist/))
  })

  test('reports a session that is missing, damaged, invalid or too long as a session fault', async (t) => {
    const { ask, endpoint, socket } = await open(t)
    endpoint.answer(replyText('x'))
    const { sessionId = '' } = await ask('hello')
    writeFileSync(join(socket.home, '.svc', 'sessions', `${sessionId}.json`), '{"messages": [')
    for (const id of [sessionId, 'unknown', '../../etc/passwd'])
      await assert.rejects(
        ask('hello', { sessionId: id }),
        isRunFault('session', /session does not exist or is damaged/),
      )
    const { sessionId: other } = await ask('hello')
    endpoint.answer(replyError(400, { message: 'too many tokens', code: 'context_length_exceeded' }))
    await assert.rejects(ask('hello', { sessionId: other }), isRunFault('session', /too long/))
    await assert.rejects(ask('hello'), isRunFault('terminal', /too long/))
  })

  test('recognises a session that is too long in errors of other servers and inside a stream', async (t) => {
    const { ask, endpoint } = await open(t)
    endpoint.answer(replyText('x'))
    const { sessionId } = await ask('hello')
    const error = { code: 500, message: 'no', type: 'exceed_context_size_error' }
    for (const reply of [
      replyError(500, error),
      replyError(400, error),
      (r) => events(r, [{ error }]),
    ] satisfies EndpointReply[]) {
      const before = endpoint.asked.length
      endpoint.answer(reply)
      await assert.rejects(ask('hello', { sessionId }), isRunFault('session', /too long/))
      assert.equal(endpoint.asked.length, before + 1)
    }
    endpoint.answer(
      replyError(429, { message: 'context window of your plan' }, { 'retry-after': '0' }),
      replyText('later'),
    )
    assert.equal((await ask('hello', { sessionId })).result, 'later')
  })

  for (const status of [400, 413, 422])
    test(`abandons a session that fails with ${status} only if a new one succeeds`, async (t) => {
      const { ask, endpoint } = await open(t, {}, PRICES)
      endpoint.answer(replyText('noted'))
      const { sessionId = '' } = await ask('my name is Kim')
      const no = replyError(status, { message: 'no' })
      endpoint.answer(no)
      await assert.rejects(ask('hello', { sessionId }), isRunFault('terminal', new RegExp(`answers ${status}: no`)))
      assert.equal(endpoint.asked.length, 3)
      endpoint.answer(no, replyError(503, 'busy', { 'retry-after': '0' }))
      await assert.rejects(ask('hello', { sessionId }), isRunFault('retryable', /answers 503/))
      endpoint.answer(no, replyText('fine'))
      let used: readonly ModelUsage[] = []
      await assert.rejects(
        ask('hello', { sessionId, onUsage: (each) => (used = each) }),
        isRunFault('session', /a new one does not.*answers 4\d\d: no/),
      )
      assert.equal(used[0]?.output, 100)
      assert.deepEqual(
        endpoint.asked.at(-1)?.body.messages.map(({ role }) => role),
        ['system', 'user'],
      )
      endpoint.answer(replyText('Kim'))
      assert.equal((await ask('what is my name?', { sessionId })).sessionId, sessionId)
    })

  test('returns a refusal of the model as the answer', async (t) => {
    const { ask, endpoint } = await open(t)
    endpoint.answer((response) => {
      const piece = (refusal: string, finish_reason: string | null = null) => ({
        choices: [{ delta: { content: null, refusal }, finish_reason }],
      })
      events(response, [piece('I cannot '), piece('help with that.'), piece('', 'stop')])
    })
    assert.equal((await ask('hello')).result, 'I cannot help with that.')
  })

  test('marks an incomplete answer', async (t) => {
    const { ask, endpoint } = await open(t)
    const ending = (content: string, finish_reason: string): EndpointReply => {
      return (response) => events(response, [{ choices: [{ delta: { content }, finish_reason }] }])
    }
    endpoint.answer(ending('Once upon', 'length'))
    const { result, sessionId } = await ask('a story')
    assert.equal(result, 'Once upon\n\n(The answer stops here: it reached the length limit of the model.)')
    endpoint.answer(ending('', 'content_filter'))
    const withheld = await ask('go on', { sessionId })
    assert.equal(withheld.result, '(The provider of the model withheld the rest of the answer.)')
    assert.equal(endpoint.asked[1]?.body.messages[2]?.content, 'Once upon')
  })

  test('returns the longest answer, and fails with a longer one instead of an empty one', async (t) => {
    const { ask, endpoint } = await open(t)
    const isOversized = (error: unknown): boolean => {
      assert.ok(error instanceof RunFault, String(error))
      assert.deepEqual([error.kind, error.failure], ['terminal', 'oversized'])
      assert.equal(error.message, 'its answer is longer than 1048576 characters')
      return true
    }
    const inOneLine = (content: string): EndpointReply => {
      return (response) => events(response, [{ choices: [{ delta: { content }, finish_reason: 'stop' }] }])
    }
    const inTwoLines = (content: string): EndpointReply => {
      const parts = [content.slice(1), content.slice(0, 1)].map((part) => ({ choices: [{ delta: { content: part } }] }))
      return (response) => events(response, [...parts, { choices: [{ delta: {}, finish_reason: 'stop' }] }])
    }
    const whole = (content: string): EndpointReply => {
      return (response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ choices: [{ message: { content }, finish_reason: 'stop' }] }))
      }
    }
    // Each character takes six in the JSON that the agent prints.
    const longest = '\u0001'.repeat(ANSWER_MAX)
    for (const reply of [inOneLine, inTwoLines, whole]) {
      endpoint.answer(reply(longest))
      assert.equal((await ask('hello')).result, longest)
      endpoint.answer(reply(`${longest}x`))
      const before = endpoint.asked.length
      await assert.rejects(ask('hello'), isOversized)
      assert.equal(endpoint.asked.length, before + 1)
    }
    for (const reply of [inOneLine, whole]) {
      endpoint.answer(reply('x'.repeat(30_000_000)))
      await assert.rejects(ask('hello'), isOversized)
    }
  })

  test('does not make a tool call that the length limit cut off, and tells the model', async (t) => {
    const { ask, endpoint, socket } = await open(t, { add: () => 'ok' })
    const call = (index: number, args: string) => ({
      choices: [{ delta: { tool_calls: [{ index, id: `c${index}`, function: { name: 'add', arguments: args } }] } }],
    })
    endpoint.answer(
      (response) =>
        events(response, [call(0, '{"a":1}'), call(1, ''), { choices: [{ delta: {}, finish_reason: 'length' }] }]),
      replyText('done'),
    )
    assert.equal((await ask('add')).result, 'done')
    assert.deepEqual(socket.asked, ['add {"a":1}'])
    assert.match(String(endpoint.asked[1]?.body.messages.at(-1)?.content), /cut off/)
  })

  test('removes arguments that are not a JSON object from the session, because endpoints reject them', async (t) => {
    const { ask, endpoint } = await open(t, { add: () => 'ok' })
    endpoint.answer(
      replyToolCalls({ name: 'add', args: '{"a": 1,' }, { name: 'add', args: '{"a":2}' }),
      replyText('sorry'),
    )
    await ask('add')
    const { tool_calls } = endpoint.asked[1]?.body.messages[2] ?? {}
    assert.deepEqual(
      (tool_calls as { function: { arguments: string } }[]).map((made) => made.function.arguments),
      ['{}', '{"a":2}'],
    )
  })

  test('retries temporary failures after Retry-After', async (t) => {
    const { ask, endpoint } = await open(t)
    endpoint.answer(
      replyError(429, { message: 'slow down' }, { 'retry-after': '0' }),
      replyError(503, 'overloaded', { 'retry-after': '0' }),
      replyCutOff,
      replyText('at last'),
    )
    assert.equal((await ask('hello')).result, 'at last')
    assert.equal(endpoint.asked.length, 4)
  })

  test('fails with the error of the endpoint after the last retry', async (t) => {
    const { ask, endpoint } = await open(t)
    endpoint.answer(replyError(500, { message: 'out of order' }, { 'retry-after': '0' }))
    await assert.rejects(ask('hello'), isRunFault('retryable', /answers 500: out of order/))
    assert.equal(endpoint.asked.length, 5)
    endpoint.answer((response) => events(response, [{ error: { message: 'the model fell over' } }]))
    await assert.rejects(ask('hello'), isRunFault('retryable', /the model fell over/))
  })

  test('does not retry permanent failures', async (t) => {
    const { ask, endpoint } = await open(t)
    for (const [status, error, words] of [
      [401, { message: 'no such key' }, /answers 401: no such key/],
      [404, '<html>', /answers 404: <html>/],
      [400, '{"error":"bad request"}', /answers 400: bad request/],
      [429, { message: 'pay first', code: 'insufficient_quota' }, /pay first/],
    ] as const) {
      endpoint.answer(replyError(status, error))
      const before = endpoint.asked.length
      await assert.rejects(ask('hello'), isRunFault('terminal', words))
      assert.equal(endpoint.asked.length, before + 1)
    }
  })

  test('does not make a tool call of a stream that ended early', async (t) => {
    const { ask, endpoint, socket } = await open(t, { add: () => 'ok' })
    const half = {
      choices: [{ delta: { tool_calls: [{ index: 0, id: 'c', function: { name: 'add', arguments: '{}' } }] } }],
    }
    endpoint.answer((response) => {
      events(response, [half], false)
      setImmediate(() => response.destroy())
    }, replyText('never mind'))
    assert.equal((await ask('hello')).result, 'never mind')
    assert.deepEqual(socket.asked, [])
  })

  test('checks the budget between rounds and reports the cost of a failed run', async (t) => {
    const { ask, endpoint, socket } = await open(t, { add: () => 'ok' }, PRICES)
    endpoint.answer(replyToolCalls({ name: 'add', args: '{}' }))
    let used: readonly ModelUsage[] = []
    await assert.rejects(
      ask('spend all', { moneyCents: 4, onUsage: (each) => (used = each) }),
      isRunFault('terminal', /used up its budget/),
    )
    assert.equal(sumWholeCents(used), 5)
    assert.equal(socket.asked.length, 3)
  })

  test('has used what it had sent when it is stopped before the response ends', async (t) => {
    const { ask, endpoint } = await open(t, {}, PRICES)
    const stop = new AbortController()
    let used: readonly ModelUsage[] = []
    endpoint.answer(() => stop.abort('stopped'))
    await assert.rejects(ask('x'.repeat(40_000), { signal: stop.signal, onUsage: (each) => (used = each) }))
    assert.ok((used[0]?.cents ?? 0) > 10 && (used[0]?.input ?? 0) > 10_000)
  })

  test('takes the cost that the endpoint reports as it is', async (t) => {
    const { ask, endpoint } = await open(t)
    endpoint.answer((response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const usage = { prompt_tokens: 1000, completion_tokens: 5, cost: 0.0123 }
      response.end(JSON.stringify({ choices: [{ message: { content: 'paid' }, finish_reason: 'stop' }], usage }))
    })
    let used: readonly ModelUsage[] = []
    await ask('hello', { onUsage: (each) => (used = each) })
    assert.deepEqual(used, [{ model: 'small', input: 1000, output: 5, cents: 1.23 }])
  })

  test('forbids tool calls in the last round', async (t) => {
    const { ask, endpoint } = await open(t, { add: () => 'ok' })
    endpoint.answer((response, asked) => {
      const isLast = asked.body.tool_choice === 'none'
      return isLast
        ? replyText('enough')(response, asked)
        : replyToolCalls({ name: 'add', args: '{}' })(response, asked)
    })
    assert.equal((await ask('go on')).result, 'enough')
    assert.equal(endpoint.asked.length, 24)
  })

  test('accepts an endpoint that does not stream and reports no usage, and estimates it by the length', async (t) => {
    const { ask, endpoint } = await open(t)
    endpoint.answer((response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ choices: [{ message: { content: 'whole' }, finish_reason: 'stop' }] }))
    })
    let used: readonly ModelUsage[] = []
    assert.equal((await ask('hello', { onUsage: (each) => (used = each) })).result, 'whole')
    assert.ok((used[0]?.input ?? 0) > 10)
    assert.equal(used[0]?.output, 2)
  })

  test('puts PERSONA.md of the workspace into the system prompt', async (t) => {
    const { ask, endpoint, socket } = await open(t)
    writeFileSync(join(socket.home, 'PERSONA.md'), 'You speak in rhymes.')
    endpoint.answer(replyText('x'))
    await ask('hello')
    assert.match(String(endpoint.asked[0]?.body.messages[0]?.content), /folder main[\s\S]*rhymes/)
  })

  test('sends the key of the instance only to the endpoint of the instance', async (t) => {
    const { ask, endpoint } = await open(
      t,
      {},
      { OPENAI_API_KEY: 'of the instance', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' },
    )
    endpoint.answer(replyText('x'))
    await ask('a', { env: { OPENAI_BASE_URL: endpoint.url, OPENAI_MODEL: 'small' } })
    await ask('b', { env: { OPENAI_BASE_URL: endpoint.url, OPENAI_API_KEY: 'own', OPENAI_MODEL: 'own-model' } })
    await ask('c', { env: { OPENAI_BASE_URL: endpoint.url }, config: { model: 'of-the-group' } })
    assert.deepEqual(
      endpoint.asked.map(({ headers, body }) => [headers.authorization, body.model]),
      [
        [undefined, 'small'],
        ['Bearer own', 'own-model'],
        [undefined, 'of-the-group'],
      ],
    )
  })

  test('reports missing settings before it starts a process', async (t) => {
    const { job } = await toolSocket(t)
    const bare = await openRuntime(t, 'openai')
    await assert.rejects(bare.run(job()), isRunFault('terminal', /OPENAI_MODEL/))
    const keyless = await openRuntime(t, 'openai', { OPENAI_MODEL: 'm' })
    await assert.rejects(keyless.run(job()), isRunFault('terminal', /OPENAI_API_KEY is not set/))
    await assert.rejects(
      keyless.run(job({ env: { OPENAI_BASE_URL: 'nowhere' } })),
      isRunFault('terminal', /not an HTTP URL/),
    )
    await assert.rejects(keyless.run(job({ env: { OPENAI_API_KEY: 'own' } })), isRunFault('terminal', /OPENAI_MODEL/))
  })

  test('stops a run that hangs, and lets no agent claim that the host has failed', async (t) => {
    const { ask, endpoint, socket } = await open(t, { wait: () => new Promise(() => undefined) })
    endpoint.answer(() => undefined)
    await assert.rejects(ask('hello', { hangMs: 1500 }), isRunFault('retryable', /no activity/))
    endpoint.answer(replyToolCalls({ name: 'wait', args: '{}' }))
    const running = ask('wait')
    await until(() => socket.asked.length > 0)
    socket.drop()
    await assert.rejects(running, isRunFault('retryable', /closed/))
  })
})
