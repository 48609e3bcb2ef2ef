import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, utimesSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { openSpeechSynthesis, type SpeechOptions } from './speech-synthesis.ts'

interface SpeechRequest {
  readonly path: string | undefined
  readonly authorization: string | undefined
  readonly body: unknown
}

async function service(
  t: TestContext,
  answer: (response: ServerResponse, requests: SpeechRequest) => void = (response) => response.end('sound'),
) {
  const requests: SpeechRequest[] = []
  const server = createServer(async (request: IncomingMessage, response) => {
    const { url: path, headers } = request
    const body: unknown = JSON.parse(Buffer.concat(await request.toArray()).toString())
    const one = { path, authorization: headers.authorization, body }
    requests.push(one)
    answer(response, one)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  assert.ok(address && typeof address === 'object')
  const dir = join(tempDir(t), 'speech')
  const open = (options: Partial<SpeechOptions> = {}) =>
    openSpeechSynthesis({ url: `http://127.0.0.1:${address.port}/`, model: 'm1', voice: 'alloy', dir, ...options })
  return { requests, dir, open, url: `http://127.0.0.1:${address.port}` }
}

test('synthesizes a text with the OpenAI API and caches the audio', async (t) => {
  const { requests, open } = await service(t)
  const { path, mime } = await open({ key: 'k' }).synthesize('hello')
  assert.deepEqual(requests, [
    {
      path: '/v1/audio/speech',
      authorization: 'Bearer k',
      body: { model: 'm1', voice: 'alloy', input: 'hello', response_format: 'opus' },
    },
  ])
  assert.deepEqual([readFileSync(path, 'utf8'), mime], ['sound', 'audio/ogg'])
})

test('the URL of the service may end in /v1', async (t) => {
  const { requests, open, url } = await service(t)
  for (const ending of ['', '/v1', '/v1/']) await open({ url: `${url}${ending}` }).synthesize(`hello ${ending}`)
  assert.deepEqual(
    requests.map(({ path }) => path),
    Array.from({ length: 3 }, () => '/v1/audio/speech'),
  )
})

test('requests the same text in the same voice once, also concurrently', async (t) => {
  const { requests, open } = await service(t)
  const speech = open()
  const [one, two] = await Promise.all([speech.synthesize('hello'), speech.synthesize('hello')])
  const again = await open().synthesize('hello')
  assert.equal(one.path, two.path)
  assert.equal(one.path, again.path)
  const others = [
    await speech.synthesize('hello', 'nova'),
    await open({ model: 'm2' }).synthesize('hello'),
    await speech.synthesize('hi'),
  ]
  assert.equal(new Set([one, ...others].map(({ path }) => path)).size, 4)
  assert.equal(requests.length, 4)
})

test('failures are refusals and leave no file', async (t) => {
  for (const [answer, why] of [
    [(response: ServerResponse) => response.writeHead(500).end('x'), 'answered 500'],
    [(response: ServerResponse) => response.end(), 'sent no audio'],
    [(response: ServerResponse) => response.writeHead(302, { location: '/elsewhere' }).end(), 'cannot be reached'],
    [(response: ServerResponse) => response.destroy(), 'cannot be reached'],
  ] as const) {
    const { open, dir } = await service(t, answer)
    await assert.rejects(open().synthesize('hello'), isRefusal('unavailable', why))
    assert.ok(!existsSync(dir))
  }
})

test('a response that never ends times out', async (t) => {
  const { open } = await service(t, (response) => response.write('so'))
  await assert.rejects(open({ timeoutMs: 50 }).synthesize('hello'), isRefusal('unavailable', 'timed out'))
})

test('a failure is not cached', async (t) => {
  let isDown = true
  const { open, requests } = await service(t, (response) => {
    if (isDown) response.writeHead(503).end()
    else response.end('sound')
  })
  const speech = open()
  await assert.rejects(speech.synthesize('hello'), isRefusal('unavailable'))
  isDown = false
  await speech.synthesize('hello')
  assert.equal(requests.length, 2)
})

test('removes audio that was not used for a week', async (t) => {
  const { open, dir } = await service(t)
  const speech = open()
  const [old, used] = [await speech.synthesize('old'), await speech.synthesize('used')]
  const before = new Date(Date.now() - 8 * 24 * 3_600_000)
  for (const { path } of [old, used]) utimesSync(path, before, before)
  await speech.synthesize('used')
  await speech.synthesize('new')
  assert.equal(readdirSync(dir).length, 2)
  assert.ok(!existsSync(old.path) && existsSync(used.path))
})
