import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, utimesSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { refused } from '../../test/support/host.ts'
import { tempDir } from '../../test/support/temp.ts'
import { openSpeech, type SpeechOptions } from './speech.ts'

interface Heard {
  readonly path: string | undefined
  readonly authorization: string | undefined
  readonly body: unknown
}

async function service(
  t: TestContext,
  answer: (response: ServerResponse, heard: Heard) => void = (response) => response.end('sound'),
) {
  const heard: Heard[] = []
  const server = createServer(async (request: IncomingMessage, response) => {
    const { url: path, headers } = request
    const body: unknown = JSON.parse(Buffer.concat(await request.toArray()).toString())
    const one = { path, authorization: headers.authorization, body }
    heard.push(one)
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
    openSpeech({ url: `http://127.0.0.1:${address.port}/`, model: 'm1', voice: 'alloy', dir, ...options })
  return { heard, dir, open, url: `http://127.0.0.1:${address.port}` }
}

test('a text is spoken by the protocol, and kept', async (t) => {
  const { heard, open } = await service(t)
  const { path, mime } = await open({ key: 'k' }).say('hello')
  assert.deepEqual(heard, [
    {
      path: '/v1/audio/speech',
      authorization: 'Bearer k',
      body: { model: 'm1', voice: 'alloy', input: 'hello', response_format: 'opus' },
    },
  ])
  assert.deepEqual([readFileSync(path, 'utf8'), mime], ['sound', 'audio/ogg'])
})

test('the address of the service may end in /v1', async (t) => {
  const { heard, open, url } = await service(t)
  for (const ending of ['', '/v1', '/v1/']) await open({ url: `${url}${ending}` }).say(`hello ${ending}`)
  assert.deepEqual(
    heard.map(({ path }) => path),
    Array.from({ length: 3 }, () => '/v1/audio/speech'),
  )
})

test('the same words in the same voice are asked for once, also at the same time', async (t) => {
  const { heard, open } = await service(t)
  const speech = open()
  const [one, two] = await Promise.all([speech.say('hello'), speech.say('hello')])
  const again = await open().say('hello')
  assert.equal(one.path, two.path)
  assert.equal(one.path, again.path)
  const others = [await speech.say('hello', 'nova'), await open({ model: 'm2' }).say('hello'), await speech.say('hi')]
  assert.equal(new Set([one, ...others].map(({ path }) => path)).size, 4)
  assert.equal(heard.length, 4)
})

test('what goes wrong is a refusal, and leaves nothing behind', async (t) => {
  for (const [answer, why] of [
    [(response: ServerResponse) => response.writeHead(500).end('x'), 'answered 500'],
    [(response: ServerResponse) => response.end(), 'with nothing'],
    [(response: ServerResponse) => response.writeHead(302, { location: '/elsewhere' }).end(), 'does not answer'],
    [(response: ServerResponse) => response.destroy(), 'does not answer'],
  ] as const) {
    const { open, dir } = await service(t, answer)
    await assert.rejects(open().say('hello'), refused('unavailable', why))
    assert.ok(!existsSync(dir))
  }
})

test('a service that never ends its answer is not waited for', async (t) => {
  const { open } = await service(t, (response) => response.write('so'))
  await assert.rejects(open({ timeoutMs: 50 }).say('hello'), refused('unavailable', 'took too long'))
})

test('after a failure the next one asks again', async (t) => {
  let isDown = true
  const { open, heard } = await service(t, (response) => {
    if (isDown) response.writeHead(503).end()
    else response.end('sound')
  })
  const speech = open()
  await assert.rejects(speech.say('hello'), refused('unavailable'))
  isDown = false
  await speech.say('hello')
  assert.equal(heard.length, 2)
})

test('what nobody has asked for in a week is thrown away', async (t) => {
  const { open, dir } = await service(t)
  const speech = open()
  const [old, used] = [await speech.say('old'), await speech.say('used')]
  const before = new Date(Date.now() - 8 * 24 * 3_600_000)
  for (const { path } of [old, used]) utimesSync(path, before, before)
  await speech.say('used')
  await speech.say('new')
  assert.equal(readdirSync(dir).length, 2)
  assert.ok(!existsSync(old.path) && existsSync(used.path))
})
