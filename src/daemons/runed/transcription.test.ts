import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { type TestContext, test } from 'node:test'
import { addFileRows, chatFile, writeChatFile } from '../../../test/support/chat-files.ts'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { type ChatFile, chatFiles } from '../../core/files/chat-files.ts'
import { layout } from '../../core/layout.ts'
import { transcribeMessages } from './transcription.ts'

const json = (text: unknown) => (response: ServerResponse) => response.end(JSON.stringify({ text }))

async function open(t: TestContext, engine: EngineName, answer: (response: ServerResponse) => unknown) {
  const asked: { path: string | undefined; key: string | undefined; form: FormData }[] = []
  const server = createServer(async (request, response) => {
    const { url: path, headers } = request
    const body = Buffer.concat(await request.toArray())
    const form = await new Response(body, { headers: { 'content-type': headers['content-type'] ?? '' } }).formData()
    asked.push({ path, key: headers.authorization, form })
    answer(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  assert.ok(address && typeof address === 'object')
  const on = await openConversationHost(t, engine)
  const places = layout(tempDir(t))
  await on.ask('', { jid: 'web:main', hasRound: false })
  const claimed = await on.mustClaim()
  const message_seq = claimed.messages[0]?.message.seq ?? assert.fail('it answers nothing')
  const warnings: string[] = []
  const service = { url: `http://127.0.0.1:${address.port}/v1`, model: 'small', key: 's3cret' }
  const at = { message_seq, jid: 'web:main', folder: 'main', type: 'audio/ogg', extension: 'ogg' }
  return {
    on,
    asked,
    warnings,
    places,
    /** Audio unless `given` says otherwise. */
    upload: async (name: string, given: Partial<ChatFile> = {}) => {
      const file = chatFile({ ...at, name, ...given })
      await on.write((tx) => addFileRows(tx, file))
      await writeChatFile(places, file, `sound of ${name}`)
      return file
    },
    run: async (options: object = {}, stop = new AbortController().signal) => {
      const context = { host: on.host, layout: places, warn: (sentence: string) => void warnings.push(sentence) }
      await transcribeMessages({ ...context, service: { ...service, ...options } }, claimed, stop)
      const rows = await on.read((tx) => chatFiles.list(tx))
      return new Map(rows.map(({ name, transcript }) => [name, transcript]))
    },
    turnId: claimed.turn.id,
  }
}

onEveryEngine('the voice messages of a turn', (engine) => {
  test('get a transcript by the OpenAI API, once', async (t) => {
    const { upload, run, asked, warnings } = await open(t, engine, json(' hello\u0000 there\n'))
    await upload('private name.ogg')
    await upload('note.txt', { type: 'text/plain' })
    await upload('done.ogg', { transcript: '' })
    const expected = { 'private name.ogg': 'hello there', 'note.txt': undefined, 'done.ogg': '' }
    assert.deepEqual(Object.fromEntries(await run()), expected)
    await run()
    assert.equal(asked.length, 1)
    const { path, key, form } = asked[0] ?? assert.fail('nothing was asked')
    assert.deepEqual([path, key], ['/v1/audio/transcriptions', 'Bearer s3cret'])
    assert.deepEqual([form.get('model'), form.get('response_format')], ['small', 'json'])
    const file = form.get('file')
    assert.ok(file instanceof File)
    assert.deepEqual([file.name, file.type], ['audio.ogg', 'audio/ogg'])
    assert.equal(await file.text(), 'sound of private name.ogg')
    assert.deepEqual(warnings, [])
  })

  test('are at most ten, each of at most 25 MiB, with at most 32,768 characters', async (t) => {
    const { upload, run, asked } = await open(t, engine, json('x'.repeat(32_769)))
    const limit = 25 * 1024 * 1024
    await upload('large.ogg', { size: limit + 1 })
    for (let position = 0; position < 11; position++) await upload(`${position}.ogg`, { position, size: limit })
    const transcripts = await run()
    assert.equal(asked.length, 10)
    assert.deepEqual([transcripts.get('large.ogg'), transcripts.get('10.ogg')], [undefined, undefined])
    assert.equal(transcripts.get('9.ogg'), 'x'.repeat(32_768))
  })
})

const FAULTS: readonly (readonly [string, (response: ServerResponse) => unknown, RegExp])[] = [
  ['answers with an error', (response) => response.writeHead(500).end('s3cret'), /answered 500$/],
  ['redirects', (response) => response.writeHead(302, { location: '/elsewhere' }).end(), /cannot be reached$/],
  ['answers without a text', (response) => response.end('{"words": []}'), /has no text$/],
  ['answers with no JSON', (response) => response.end('hello'), /has no text$/],
  ['answers with too much', (response) => response.end('x'.repeat(1024 * 1024 + 1)), /is too long$/],
  ['breaks off', (response) => response.destroy(), /cannot be reached$/],
]

for (const [does, answer, reason] of FAULTS)
  test(`a turn has no transcripts, and one warning, if the service ${does}`, async (t) => {
    const { upload, run, warnings, turnId } = await open(t, 'sqlite', answer)
    for (const name of ['a.ogg', 'b.ogg']) await upload(name)
    assert.deepEqual([...(await run()).values()], [undefined, undefined])
    assert.equal(warnings.length, 1)
    assert.ok(warnings[0]?.startsWith(`turn ${turnId}: a voice message has no transcript: the `))
    assert.match(warnings[0] ?? '', reason)
    assert.doesNotMatch(warnings[0] ?? '', /s3cret|127\.0\.0\.1/)
  })

test('a service that hangs is asked once in a turn, and not waited for by a turn that is stopped', async (t) => {
  const { upload, run, asked, warnings } = await open(t, 'sqlite', () => undefined)
  for (const name of ['a.ogg', 'b.ogg']) await upload(name)
  await run({ timeoutMs: 50 })
  assert.equal(asked.length, 1)
  assert.match(warnings[0] ?? '', /timed out$/)
  const stop = new AbortController()
  const running = run({}, stop.signal)
  stop.abort()
  await running
  assert.equal(warnings.length, 1)
})

test('a file that was removed has no transcript, and the others have theirs', async (t) => {
  const { upload, run, warnings, places } = await open(t, 'sqlite', json('hello'))
  const gone = await upload('a.ogg', { jid: 'web:gone' })
  await upload('b.ogg', { position: 1 })
  rmSync(places.files, { recursive: true })
  await writeChatFile(places, { ...gone, id: 'f-b-ogg', jid: 'web:main' }, 'sound')
  assert.deepEqual([...(await run()).values()], [undefined, 'hello'])
  assert.match(warnings[0] ?? '', /it is gone$/)
})
