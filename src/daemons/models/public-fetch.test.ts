import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatEndpoint, replyModels } from '../../../test/support/chat-endpoint.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { listModels } from './model-api.ts'
import { fetchPublic, PRIVATE_ADDRESS } from './public-fetch.ts'

const REQUEST = { method: 'GET', headers: {}, signal: new AbortController().signal }

test('connects to no private address, whether it is written or a name leads there', async (t) => {
  const endpoint = await chatEndpoint(t)
  const { port } = new URL(endpoint.url)
  for (const host of ['127.0.0.1', 'localhost', '[::1]', '2130706433', '0x7f.1', '10.0.0.1', '169.254.169.254']) {
    await assert.rejects(fetchPublic(`http://${host}:${port}/v1/models`, REQUEST), { message: PRIVATE_ADDRESS }, host)
    await assert.rejects(
      listModels({ baseUrl: `http://${host}:${port}/v1`, isPublicOnly: true }),
      isRefusal('unavailable', PRIVATE_ADDRESS),
    )
  }
  assert.equal(endpoint.asked.length, 0)
})

test('answers like fetch, without following a redirect', async (t) => {
  const endpoint = await chatEndpoint(t)
  endpoint.answer(replyModels(['a']))
  const isLoopback = (address: string): boolean => address === '127.0.0.1'
  const found = await fetchPublic(`${endpoint.url}/models`, REQUEST, isLoopback)
  assert.deepEqual([found.status, found.headers.get('content-type')], [200, 'application/json'])
  assert.match(await found.text(), /"id":"a"/)
  endpoint.answer((response) => response.writeHead(302, { Location: '/elsewhere' }).end())
  assert.equal((await fetchPublic(`${endpoint.url}/models`, REQUEST, isLoopback)).status, 302)
  const signal = AbortSignal.abort(new Error('too late'))
  await assert.rejects(fetchPublic(`${endpoint.url}/models`, { ...REQUEST, signal }, isLoopback), /abort|too late/i)
})
