// The interface for OpenAI clients at a link, over HTTP with the demo agent.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { onEveryEngine } from '../../../../test/support/host.ts'
import {
  type HttpAnswer,
  json,
  type LinkHost,
  type LinkHostOptions,
  type MintedLink,
  openLinkHost,
} from '../../../../test/support/link-host.ts'
import { until } from '../../../../test/support/until.ts'
import { audit } from '../../../registry/audit.ts'

const DAEMONS = ['webd', 'routd', 'runed']

interface Said {
  readonly role: string
  readonly content: unknown
}

const user = (content: unknown): Said => ({ role: 'user', content })
const assistant = (content: string): Said => ({ role: 'assistant', content })

interface Face extends LinkHost {
  readonly link: MintedLink
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<HttpAnswer>
  /** The text of a chat completion. */
  complete(
    messages: readonly Said[],
    more?: object,
    headers?: Record<string, string>,
  ): Promise<HttpAnswer & { said: string; topic: string }>
  topics(): Promise<(string | undefined)[]>
}

async function open(t: TestContext, options: LinkHostOptions & { visitors?: 'apart' } = {}): Promise<Face> {
  const { visitors, ...rest } = options
  const s = await openLinkHost(t, { daemons: DAEMONS, ...rest })
  const link = await s.mintChat(visitors ? { jid_suffix: 'site', visitors } : {})
  const post: Face['post'] = (path, body, headers = {}) => s.to(`POST ${link.chat}v1/${path}`, json(body, headers))
  return {
    ...s,
    link,
    post,
    complete: async (messages, more = {}, headers = {}) => {
      const answer = await post('chat/completions', { model: 'any', messages, ...more }, headers)
      assert.equal(answer.status, 200, answer.text)
      const [choice] = answer.body.choices as { message: { content: string } }[]
      return { ...answer, said: choice?.message.content ?? '', topic: answer.headers.get('x-topic') ?? '' }
    },
    topics: async () => (await s.messages()).filter(({ direction }) => direction === 'in').map(({ topic }) => topic),
  }
}

function errorOf({ body }: HttpAnswer): { message: string; type: string; param: string | null; code: string } {
  assert.deepEqual(Object.keys(body), ['error'])
  const error = body.error as ReturnType<typeof errorOf>
  assert.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code'])
  return error
}

/** The data of the events of a stream. */
function dataOf({ text }: HttpAnswer): Record<string, never>[] {
  return text.split('\n').flatMap((line) => (/^data: \{/.test(line) ? [JSON.parse(line.slice('data: '.length))] : []))
}

onEveryEngine('the interface for OpenAI clients', (engine) => {
  test('answers with the messages of the round, and goes on in the same topic when the client resends them', async (t) => {
    const s = await open(t, { engine })
    const first = await s.complete([user('/say one\n/say two')])
    assert.equal(first.said, 'one\n\ntwo')
    const { id, object, model, usage, choices } = first.body
    assert.match(String(id), /^chatcmpl-[0-9a-f-]{36}$/)
    assert.deepEqual([object, model], ['chat.completion', 'main'])
    assert.deepEqual(usage, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })
    assert.ok(Array.isArray(choices))
    assert.equal(choices[0].finish_reason, 'stop')
    const history = [user('/say one\n/say two'), assistant(' one\n\ntwo\n')]
    const second = await s.complete([...history, user('/say three')])
    assert.deepEqual([second.said, second.topic], ['three', first.topic])
    const third = await s.complete([...history, user('/say three'), assistant('three'), user('/say four')])
    assert.equal(third.topic, first.topic)
    const again = await s.complete([...history, user('/say another')])
    assert.notEqual(again.topic, first.topic, 'the topic has gone on')
    const fresh = await s.complete([user('/say five')])
    assert.notEqual(fresh.topic, first.topic)
    const [stored] = (await s.messages()).filter(({ topic }) => topic === again.topic)
    assert.deepEqual(stored?.client_context, { history: [user('/say one\n/say two'), assistant(' one\n\ntwo\n')] })
  })

  test('joins equal requests of a minute to one round, and those that come while the agent works', async (t) => {
    const s = await open(t, { engine })
    const ask = () => s.complete([user('/wait 300ms\n/say done')], { temperature: 1 })
    const answers = await Promise.all([ask(), ask()])
    assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1)
    assert.deepEqual(
      answers.map(({ said }) => said),
      ['done', 'done'],
    )
    s.clock.advance(59_000)
    assert.equal((await ask()).body.id, answers[0]?.body.id)
    s.clock.advance(1000)
    assert.notEqual((await ask()).body.id, answers[0]?.body.id)
    assert.equal((await s.complete([user('/wait 300ms\n/say done')], { user: 'bob' })).said, 'done')
    assert.equal((await s.rounds()).length, 3)
  })
  test('names topics by header, conversation or earlier response, and refuses the responses of others', async (t) => {
    const s = await open(t, { engine })
    const other = await s.mintChat({ jid_suffix: 'other' })
    const named = await s.complete([user('/say a')], {}, { 'X-Topic': 'caf%C3%A9' })
    assert.deepEqual([named.topic, (await s.topics()).at(-1)], ['caf%C3%A9', 'café'])
    const ask = (more: object, path = s.link.chat) =>
      s.to(`POST ${path}v1/responses`, json({ model: 'x', input: '/say b', ...more }))
    const { body, headers } = await ask({ conversation: { id: 'news' } })
    assert.deepEqual([headers.get('x-topic'), body.conversation], ['news', { id: 'news' }])
    const next = await ask({ previous_response_id: body.id, input: '/say c' })
    assert.deepEqual([next.body.previous_response_id, (await s.topics()).at(-1)], [body.id, 'news'])
    for (const previous_response_id of [body.id, 'resp_unknown', named.body.id]) {
      const refused = await ask({ previous_response_id, input: '/say d' }, other.chat)
      assert.equal(refused.status, 404)
      const { message, param, code } = errorOf(refused)
      assert.deepEqual(
        [message, param, code],
        ['there is no such response in this chat', 'previous_response_id', 'previous_response_not_found'],
      )
    }
    const answerId = `msg_${String(body.id).slice('resp_'.length)}`
    const refer = (id: string, path?: string) =>
      ask({ input: [user('/say b'), { type: 'item_reference', id }, user('/say f')] }, path)
    const referred = await refer(answerId)
    assert.deepEqual([referred.headers.get('x-topic'), (await s.topics()).at(-1)], ['news', 'news'])
    const elsewhere = await refer(answerId, other.chat)
    assert.deepEqual(
      [elsewhere.status, errorOf(elsewhere).message, errorOf(elsewhere).param],
      [404, `there is no item ${answerId} in this chat`, 'input'],
    )
    assert.notEqual((await refer('msg_of_another_provider')).headers.get('x-topic'), 'news')
    const main = await s.complete([user('/say e')], {}, { 'X-Topic': '' })
    assert.deepEqual([main.topic, (await s.topics()).at(-1)], ['', undefined])
  })

  test('gives the agent the system messages and an unknown history as data of the client', async (t) => {
    const s = await open(t, { engine })
    const system = [
      { role: 'system', content: 'Be brief.' },
      { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
    ]
    const earlier = [user('hi'), assistant('hello'), { role: 'tool', content: '7', tool_call_id: 'x' }]
    await s.complete([...system, ...earlier, user('/say one')])
    const [stored] = await s.messages()
    assert.deepEqual(stored?.client_context, {
      system: 'Be brief.\n\nBe kind.',
      history: [user('hi'), assistant('hello'), { role: 'tool', content: '7' }],
    })
    const same = await s.complete([...system, ...earlier, user('/say one'), assistant('one'), user('/say two')])
    assert.equal(same.topic, stored?.topic)
    const next = (await s.messages()).filter(({ direction }) => direction === 'in').at(-1)
    assert.deepEqual(next?.client_context, { system: 'Be brief.\n\nBe kind.' })
  })

  test('does not find a conversation of another user, visitor or link', async (t) => {
    const s = await open(t, { engine, visitors: 'apart' })
    const [ann, bob] = ['A', 'B'].map((letter) => ({ 'X-Visitor': `${letter.repeat(42)}A` }))
    const first = await s.complete([user('/say one')], { user: 'u' }, ann)
    const more = [user('/say one'), assistant('one'), user('/say two')]
    assert.notEqual((await s.complete(more, { user: 'v' }, ann)).topic, first.topic)
    assert.notEqual((await s.complete(more, { user: 'u' }, bob)).topic, first.topic)
    const unknown = await s.complete(more, { user: 'u' })
    assert.notEqual(unknown.topic, first.topic)
    assert.match(unknown.headers.get('x-visitor') ?? '', /^[\w-]{43}$/)
    assert.equal((await s.complete(more, { user: 'u' }, ann)).topic, first.topic)
    assert.equal(new Set((await s.messages()).map(({ jid }) => jid)).size, 3)
  })
})

test('a stream begins at once, has the text as chunks, and the usage only if it is asked for', async (t) => {
  const s = await open(t)
  const ask = (more: object) =>
    s.post('chat/completions', { model: 'x', messages: [user('/say one\n/say two')], stream: true, ...more })
  const plain = await ask({})
  assert.equal(plain.headers.get('content-type'), 'text/event-stream')
  const chunks = dataOf(plain) as unknown as {
    choices: { delta: object; finish_reason: string | null }[]
    usage?: object
  }[]
  assert.deepEqual(
    chunks.map(({ choices }) => [choices[0]?.delta, choices[0]?.finish_reason]),
    [
      [{ role: 'assistant', content: '' }, null],
      [{ content: 'one' }, null],
      [{ content: '\n\ntwo' }, null],
      [{}, 'stop'],
    ],
  )
  assert.ok(chunks.every((chunk) => !('usage' in chunk)))
  assert.ok(plain.text.endsWith('data: [DONE]\n\n'))
  const counted = dataOf(await ask({ stream_options: { include_usage: true } }))
  const { choices, usage } = counted.at(-1) ?? {}
  assert.deepEqual([choices, usage], [[], { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }])
  assert.ok(counted.slice(0, -1).every((chunk) => chunk.usage === null))
})

test('a stream of responses has the events that official clients expect, numbered', async (t) => {
  const s = await open(t)
  const answer = await s.post('responses', { model: 'x', input: '/say one', stream: true })
  const events = dataOf(answer) as unknown as {
    type: string
    sequence_number: number
    response?: { status: string; output: unknown[] }
  }[]
  assert.deepEqual(
    events.map(({ type }) => type),
    [
      ...['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added'],
      ...['response.output_text.delta', 'response.output_text.done', 'response.content_part.done'],
      ...['response.output_item.done', 'response.completed'],
    ],
  )
  assert.deepEqual(
    events.map(({ sequence_number }) => sequence_number),
    [...events.keys()],
  )
  assert.deepEqual([events[0]?.response?.status, events.at(-1)?.response?.status], ['in_progress', 'completed'])
  assert.equal(answer.text.match(/^event: /gm)?.length, events.length)
})

test('a turn that fails is an error that is not tried again, and in a stream its last event', async (t) => {
  const s = await open(t, { settings: { TURN_ATTEMPTS: '1' } })
  const messages = [user('/say so far\n/fail')]
  const failed = await s.post('chat/completions', { messages })
  assert.deepEqual([failed.status, failed.headers.get('x-should-retry')], [500, 'false'])
  const error = errorOf(failed)
  assert.deepEqual([error.type, error.code], ['server_error', 'turn_failed'])
  assert.match(error.message, /could not answer/)
  const streamed = await s.post('chat/completions', { messages, stream: true })
  assert.equal(streamed.status, 200)
  const chunks = dataOf(streamed)
  assert.deepEqual(chunks.at(-1), { error })
  assert.ok(!streamed.text.includes('[DONE]'))
  assert.equal((await s.rounds()).length, 1, 'the second request joined the first')
  const events = dataOf(await s.post('responses', { input: '/say so far\n/fail', stream: true }))
  const { type, response } = events.at(-1) ?? {}
  assert.deepEqual([type, Reflect.get(Object(response), 'status')], ['response.failed', 'failed'])
})

test('an answer that is stopped ends with what was said', async (t) => {
  const s = await open(t)
  const answer = s.post('chat/completions', { messages: [user('/say so far\n/wait 60s')] })
  await until(async () => (await s.messages()).some(({ direction, kind }) => direction === 'out' && kind === 'message'))
  const [round] = await s.rounds()
  assert.equal((await s.to(`POST ${s.link.chat}${round?.id}/stop`)).status, 202)
  const { status, body } = await answer
  assert.equal(status, 200)
  assert.ok(Array.isArray(body.choices))
  assert.deepEqual([body.choices[0].message.content, body.choices[0].finish_reason], ['so far', 'length'])
})

test('a client that disconnects does not stop the agent, and gets the answer when it asks again', async (t) => {
  const s = await open(t)
  const body = { model: 'x', messages: [user('/wait 500ms\n/say done')] }
  const lost = new AbortController()
  const first = fetch(`${s.url('webd')}${s.link.chat}v1/chat/completions`, {
    method: 'POST',
    ...json(body),
    signal: lost.signal,
  })
  first.catch(() => {})
  await until(async () => (await s.rounds()).length === 1)
  lost.abort()
  assert.equal((await s.complete(body.messages)).said, 'done')
  assert.equal((await s.rounds()).length, 1)
})

test('images and files are those of the message, and files of the agent are links', async (t) => {
  const s = await open(t)
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').toString('base64')
  const parts = [
    { type: 'text', text: '/say seen' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } },
    { type: 'file', file: { filename: 'a.txt', file_data: Buffer.from('text').toString('base64') } },
  ]
  const { body } = await s.complete([user(parts)])
  const id = String(body.id).slice('chatcmpl-'.length)
  const page = await s.to(`GET ${s.link.chat}${id}`, { headers: { Accept: 'text/html' } })
  for (const name of ['file.png', 'a.txt']) assert.ok(page.text.includes(name), name)
  const next = await s.complete([user(parts), assistant('seen'), user('/say again')])
  assert.equal((await s.messages()).filter(({ topic }) => topic === next.topic).length, 4, 'the same topic')
  const url = [{ type: 'image_url', image_url: { url: 'https://example.org/a.png' } }]
  const refused = await s.post('chat/completions', { messages: [user(url)] })
  assert.equal(refused.status, 400)
  assert.match(errorOf(refused).message, /^files are not fetched from URLs: send the content itself/)
  const eleven = Array.from({ length: 11 }, () => parts[2])
  const many = await s.post('chat/completions', { messages: [user(eleven)] })
  assert.deepEqual([many.status, errorOf(many).message], [413, 'the message has more than 10 files'])
})

test('errors have the shape that clients read, for every status', async (t) => {
  const s = await open(t)
  const hook = await s.mintHook()
  const good = { messages: [user('/say hi')] }
  const cases: [string, object, number, string][] = [
    [`POST /chat/${'x'.repeat(43)}/v1/chat/completions`, json(good), 401, 'invalid_api_key'],
    [`GET /chat/short/v1/models`, {}, 401, 'invalid_api_key'],
    ['GET /openai/v1/models', {}, 401, 'invalid_api_key'],
    ['GET /openai/v1/models', { headers: { Authorization: 'Bearer sk-1' } }, 401, 'invalid_api_key'],
    [`POST /chat/${hook.token}/v1/chat/completions`, json(good), 404, 'not_found'],
    [`GET ${s.link.chat}v1/embeddings`, {}, 404, 'not_found'],
    [`GET ${s.link.chat}v1/models/other`, {}, 404, 'model_not_found'],
    [`GET ${s.link.chat}v1/chat/completions`, {}, 405, 'not_allowed'],
    [`POST ${s.link.chat}v1/models`, json({}), 405, 'not_allowed'],
    [`POST ${s.link.chat}v1/responses`, { body: '{}' }, 415, 'wrong_type'],
    [`POST ${s.link.chat}v1/responses`, json([]), 400, 'invalid'],
    [`POST ${s.link.chat}v1/responses`, { ...json({}), body: '{' }, 400, 'invalid'],
    [`POST ${s.link.chat}v1/chat/completions`, json({ ...good, tools: [{}] }), 400, 'invalid'],
  ]
  for (const [asked, init, status, code] of cases) {
    const answer = await s.to(asked, init)
    assert.deepEqual([answer.status, errorOf(answer).code], [status, code], `${asked} ${answer.text}`)
    assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  }
  assert.equal((await s.to(`GET ${s.link.chat}v1/responses`)).headers.get('allow'), 'POST, OPTIONS')
  await s.revoke(s.link)
  for (const path of ['models', 'chat/completions']) {
    const answer = await (path === 'models' ? s.to(`GET ${s.link.chat}v1/models`) : s.post(path, good))
    assert.deepEqual(
      [answer.status, errorOf(answer).message],
      [401, 'there is no such link, or it was revoked; ask for a new one where you got it'],
    )
  }
  assert.equal((await s.messages()).length, 0)
})

test('requests count in the rate of the link, unless they are equal to one before', async (t) => {
  const s = await open(t, { settings: { WEBHOOK_RATE_WEB: '3' } })
  const same = { messages: [user('/say hi')] }
  for (let at = 0; at < 3; at++) assert.equal((await s.post('chat/completions', same)).status, 200)
  for (let at = 0; at < 2; at++) assert.equal((await s.post('chat/completions', { n: 2 })).status, 400)
  const limited = await s.post('chat/completions', same)
  assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '20'])
  assert.deepEqual(errorOf(limited), {
    message: 'too many messages through this link; try again in 20 s',
    ...{ type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' },
  })
  assert.equal((await s.rounds()).length, 1)
})

test('bodies have at most 8 MiB and 50,000 values', async (t) => {
  const s = await open(t, { settings: { WEBHOOK_RATE_WEB: '0' } })
  const sized = (bytes: number): { body: string; headers: Record<string, string> } => {
    const init = json({ messages: [user('/say hi')], pad: '' })
    return { ...init, body: init.body.replace('"pad":""', `"pad":"${'x'.repeat(bytes - init.body.length)}"`) }
  }
  const max = 8 * 1024 * 1024
  assert.equal((await s.to(`POST ${s.link.chat}v1/chat/completions`, sized(max))).status, 200)
  const large = await s.to(`POST ${s.link.chat}v1/chat/completions`, sized(max + 1))
  assert.deepEqual([large.status, errorOf(large).message], [413, `the body is larger than ${max} bytes`])
  // The body, its list of messages, a message with two members, and the list itself have seven more.
  const valued = (count: number) =>
    s.post('chat/completions', { messages: [user('/say hi')], pad: Array(count - 5).fill(1) })
  assert.equal((await valued(50_000)).status, 200)
  const many = await valued(50_001)
  assert.deepEqual([many.status, errorOf(many).message], [400, 'the body has more than 50000 values'])
  const long = await s.post('chat/completions', { messages: [user('x'.repeat(1024 * 1024 + 1))] })
  assert.deepEqual([long.status, errorOf(long).message], [413, 'the body is larger than 1048576 bytes'])
})

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

test('keeps nothing of the bodies in memory while the agent works', async (t) => {
  const s = await open(t)
  await s.grant('local:ada', 'interact', 'main')
  const bearer = await s.bearer({ sub: 'local:ada' })
  const lost = new AbortController()
  t.after(() => lost.abort())
  const MIB = 1024 * 1024
  const used = (): number => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const before = used()
  const long = 'x'.repeat(7 * MIB)
  let sent = 0
  for (let at = 0; at < 4; at++) {
    const input = `/wait 60s ${at}`
    const history = { model: 'main', input: [assistant(long), user(input)] }
    const requests: [string, object][] = [
      ['/openai/v1/responses', history],
      [`${s.link.chat}v1/responses`, history],
      [`${s.link.chat}v1/responses`, { input, previous_response_id: long, conversation: 'a' }],
    ]
    for (const [path, body] of requests) {
      const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${bearer}` }
      const init = { method: 'POST', headers, body: Buffer.from(JSON.stringify(body)), signal: lost.signal }
      fetch(s.url('webd') + path, init).catch(() => {})
      sent++
      // All bodies at once would be more than the limit.
      await until(async () => (await s.rounds()).length === sent)
    }
  }
  // The text itself, and what else the process has loaded. Bodies on their way may take some collections.
  let kept = Number.POSITIVE_INFINITY
  let looks = 0
  await until(() => {
    kept = used() - before
    return kept < 20 * MIB || ++looks === 20
  })
  assert.ok(kept < 20 * MIB, `${kept} bytes`)
})

test('any page may use a link, with all headers of the official client', async (t) => {
  const s = await open(t)
  const asked = 'authorization,content-type,x-stainless-lang,x-stainless-retry-count,x-topic'
  const preflight = await s.to(`OPTIONS ${s.link.chat}v1/chat/completions`, {
    headers: { Origin: 'https://app.example', 'Access-Control-Request-Headers': asked },
  })
  assert.equal(preflight.status, 204)
  assert.deepEqual(
    ['origin', 'headers', 'methods'].map((name) => preflight.headers.get(`access-control-allow-${name}`)),
    ['*', asked, 'POST, OPTIONS'],
  )
  const { headers } = await s.complete([user('/say hi')])
  assert.match(headers.get('access-control-expose-headers') ?? '', /\bX-Topic\b/)
})

test('with a bearer the models are the folders that a person may talk to, each with a chat of their own', async (t) => {
  const s = await open(t, { daemons: ['proxyd', ...DAEMONS] })
  await s.groups('team', 'team/sales', 'other')
  await s.grant('local:ada', 'interact', 'team/**')
  await s.grant('local:ada', 'interact', 'team')
  const bearer = await s.bearer({ sub: 'local:ada' })
  const ask = async (path: string, init?: RequestInit) => {
    const answer = await s.ask(`/openai/v1/${path}`, bearer, init)
    return { status: answer.status, headers: answer.headers, body: await answer.json(), text: '' } as HttpAnswer
  }
  const { body } = await ask('models')
  assert.ok(Array.isArray(body.data))
  assert.deepEqual(
    body.data.map(({ id }) => id),
    ['team', 'team/sales'],
  )
  assert.equal((await ask('models/team%2Fsales')).body.id, 'team/sales')
  const say = (model: string, content = '/say hi') =>
    ask('chat/completions', { method: 'POST', ...json({ model, messages: [user(content)] }) })
  for (const model of ['other', 'nowhere']) {
    const refused = await say(model)
    assert.deepEqual(
      [refused.status, errorOf(refused)],
      [
        404,
        {
          message: `the model "${model}" does not exist, or you may not use it`,
          ...{ type: 'invalid_request_error', param: 'model', code: 'model_not_found' },
        },
      ],
    )
  }
  const answer = await say('team/sales')
  assert.equal(answer.status, 200)
  assert.equal(answer.body.model, 'team/sales')
  const [message] = await s.messages()
  assert.match(message?.jid ?? '', /^web:team\/sales\/u-[0-9a-f]{12}$/)
  assert.equal(message?.sender, 'local:ada')
  assert.equal((await say('team/sales', '/say again')).status, 200)
  const opened = await s.host.engine.read((tx) => audit.list(tx, { action: 'route_tokens.open_person_chat' }))
  assert.deepEqual(
    opened.map(({ actor, key, surface }) => [actor, key, surface]),
    [['local:ada', message?.jid, 'rest']],
  )
  assert.equal((await say('', 'x')).status, 404)
  const without = await ask('responses', { method: 'POST', ...json({ input: 'hi' }) })
  assert.deepEqual([without.status, errorOf(without).param], [400, 'model'])
  const service = await s.ask('/openai/v1/models', await s.bearer({ sub: 'service:timed', kind: 'service' }))
  assert.equal(service.status, 403)
})
