// The interface for OpenAI clients at a link, over HTTP with the demo agent.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
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
  complete(messages: readonly Said[], more?: object, headers?: Record<string, string>): Promise<HttpAnswer & { said: string; topic: string }>
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
    assert.deepEqual(answers.map(({ said }) => said), ['done', 'done'])
    s.clock.advance(59_000)
    assert.equal((await ask()).body.id, answers[0]?.body.id)
    s.clock.advance(1000)
    assert.notEqual((await ask()).body.id, answers[0]?.body.id)
    assert.equal((await s.complete([user('/wait 300ms\n/say done')], { user: 'bob' })).said, 'done')
    assert.equal((await s.rounds()).length, 3)
  })
})
