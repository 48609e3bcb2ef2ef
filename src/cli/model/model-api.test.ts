import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatEndpoint, replyError, replyModels } from '../../../test/support/chat-endpoint.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { callModel, detectServers, listModels, similarNames } from './model-api.ts'

test('a server is found by its list of models, and another program on the port is none', async (t) => {
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

test('an endpoint that does not answer in time is told with the time', async (t) => {
  const endpoint = await chatEndpoint(t)
  endpoint.answer(() => undefined)
  await assert.rejects(
    callModel({ baseUrl: endpoint.url }, 'm', 50),
    isRefusal('unavailable', `${endpoint.url} did not answer within 0.05 s`),
  )
})

test('a host that no name server knows is told so, without the key', async () => {
  await assert.rejects(
    listModels({ baseUrl: 'http://nothing.invalid/v1', key: 'sk-1' }),
    isRefusal('unavailable', 'http://nothing.invalid/v1 was not reached: its host name was not found'),
  )
})

test('a key that is no header value is not repeated', async (t) => {
  const endpoint = await chatEndpoint(t)
  const key = 'sk-1\n2'
  await assert.rejects(listModels({ baseUrl: endpoint.url, key }), (error: Error) => !error.message.includes('sk-1'))
  assert.equal(endpoint.asked.length, 0)
})

test('an answer of a tool call, and one with the thoughts of the model, are answers', async (t) => {
  const endpoint = await chatEndpoint(t)
  const message = (value: object) => replyError(200, JSON.stringify({ choices: [{ message: value }] }))
  const answerTo = async (value: object): Promise<string> => {
    endpoint.answer(message(value))
    return (await callModel({ baseUrl: endpoint.url }, 'm')).answer
  }
  assert.equal(await answerTo({ content: null, tool_calls: [{ id: '1' }] }), '(a tool call)')
  assert.equal(await answerTo({ content: '<think>hm\nhm</think>\n\nHello!' }), 'Hello!')
  assert.equal(await answerTo({ content: '' }), '(nothing)')
})

test('names that share parts with what was typed are near, at most five', () => {
  const names = ['qwen3:8b', 'qwen3:32b', 'llama3.2:3b', 'openai/gpt-5-mini', 'openai/gpt-5']
  assert.deepEqual(similarNames('qwen3', names), ['qwen3:8b', 'qwen3:32b'])
  assert.deepEqual(similarNames('gpt-5-mini', names)[0], 'openai/gpt-5-mini')
  assert.deepEqual(similarNames('mistral', names), [])
  const many = Array.from({ length: 9 }, (_, at) => `qwen3:${at}`)
  assert.equal(similarNames('qwen3', many).length, 5)
})
