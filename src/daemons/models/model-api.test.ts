import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { chatEndpoint, replyError, replyModels } from '../../../test/support/chat-endpoint.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { callModel, detectServers, listModels, similarNames } from './model-api.ts'

test('detects servers by their list of models and skips other programs', async (t) => {
  const [server, svc, other] = [await chatEndpoint(t), await chatEndpoint(t), await chatEndpoint(t)]
  server.answer(replyModels(['b', 'a', 'b']))
  svc.answer(replyError(401, { type: 'about:blank', title: 'Not signed in', status: 401 }))
  other.answer(replyError(200, '<html>hello</html>'))
  const nothing = 'http://127.0.0.1:1/v1'
  const found = await detectServers(
    [server, svc, other].map(({ url }) => ({ baseUrl: url })).concat({ baseUrl: nothing }),
  )
  assert.deepEqual([...found], [[server.url, ['a', 'b']]])
})

test('reports the timeout of an endpoint that does not respond', async (t) => {
  const endpoint = await chatEndpoint(t)
  endpoint.answer(() => undefined)
  await assert.rejects(
    callModel({ baseUrl: endpoint.url }, 'm', 50),
    isRefusal('unavailable', `${endpoint.url} did not respond within 0.05 s`),
  )
})

test('reports an unknown host name without the key', async () => {
  await assert.rejects(
    listModels({ baseUrl: 'http://nothing.invalid/v1', key: 'sk-1' }),
    isRefusal('unavailable', 'cannot reach http://nothing.invalid/v1: its host name was not found'),
  )
})

test('does not repeat a key that is not a valid header value', async (t) => {
  const endpoint = await chatEndpoint(t)
  const key = 'sk-1\n2'
  await assert.rejects(listModels({ baseUrl: endpoint.url, key }), (error: Error) => !error.message.includes('sk-1'))
  assert.equal(endpoint.asked.length, 0)
})

test('refuses a response that does not end', async (t) => {
  const { url, answer } = await chatEndpoint(t)
  let sent = 0
  const chunks = function* (): Generator<Buffer> {
    for (; sent < 64; sent++) yield Buffer.alloc(1024 * 1024, ' ')
  }
  answer((response) => Readable.from(chunks()).pipe(response))
  await assert.rejects(listModels({ baseUrl: url }), isRefusal('unprocessable', 'more than 16777216 bytes'))
  assert.ok(sent < 64, `${sent} MiB`)
})

test('accepts tool calls, and removes the reasoning of the model from its answer', async (t) => {
  const endpoint = await chatEndpoint(t)
  const callWithReply = async (message: object): Promise<string> => {
    endpoint.answer(replyError(200, JSON.stringify({ choices: [{ message }] })))
    return (await callModel({ baseUrl: endpoint.url }, 'm')).answer
  }
  assert.equal(await callWithReply({ content: null, tool_calls: [{ id: '1' }] }), '(a tool call)')
  assert.equal(await callWithReply({ content: '<think>hm\nhm</think>\n\nHello!' }), 'Hello!')
  assert.equal(await callWithReply({ content: '' }), '(nothing)')
})

test('suggests at most five names that share parts with the typed one', () => {
  const names = ['qwen3:8b', 'qwen3:32b', 'llama3.2:3b', 'openai/gpt-5-mini', 'openai/gpt-5']
  assert.deepEqual(similarNames('qwen3', names), ['qwen3:8b', 'qwen3:32b'])
  assert.deepEqual(similarNames('gpt-5-mini', names)[0], 'openai/gpt-5-mini')
  assert.deepEqual(similarNames('mistral', names), [])
  const many = Array.from({ length: 9 }, (_, at) => `qwen3:${at}`)
  assert.equal(similarNames('qwen3', many).length, 5)
})
