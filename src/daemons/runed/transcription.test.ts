import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { addFileRows, chatFile, writeChatFile } from '../../../test/support/chat-files.ts'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { type ChatFile, chatFiles } from '../../core/files/chat-files.ts'
import { layout } from '../../core/layout.ts'
import { envelopes } from '../../core/messages/envelopes.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { saveAttachments } from './attachments.ts'
import { transcribeMessages } from './transcription.ts'

const json = (text: unknown) => (response: ServerResponse) => response.end(JSON.stringify({ text }))

async function openService(t: TestContext, answer: (response: ServerResponse) => unknown) {
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
  return { asked, service: { url: `http://127.0.0.1:${address.port}/v1`, model: 'small', key: 's3cret' } }
}

async function open(t: TestContext, engine: EngineName, answer: (response: ServerResponse) => unknown) {
  const { asked, service } = await openService(t, answer)
  const on = await openConversationHost(t, engine)
  const places = layout(tempDir(t))
  await on.ask('', { jid: 'web:main', hasRound: false })
  const claimed = await on.mustClaim()
  const message_seq = claimed.messages[0]?.message.seq ?? assert.fail('it answers nothing')
  const warnings: string[] = []
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

onEveryEngine('the voice messages of a chat platform', (engine) => {
  async function claim(t: TestContext, jid: string) {
    const { asked, service } = await openService(t, json('hello'))
    const on = await openConversationHost(t, engine)
    const places = layout(tempDir(t))
    mkdirSync(join(places.groups, 'main'), { recursive: true })
    const data = Buffer.from('sound').toString('base64')
    const attachments = JSON.stringify([
      { filename: 'note.txt', mime: 'text/plain', data },
      { filename: 'voice-7.OGG', mime: 'audio/ogg', data },
      { mime: 'audio/x-wav', data },
    ])
    await on.ask('listen', { jid, hasRound: false, envelope: { attachments } })
    const saved = await saveAttachments(on.host, places, await on.mustClaim())
    const warnings: string[] = []
    const context = { host: on.host, layout: places, service, warn: (sentence: string) => void warnings.push(sentence) }
    const run = (claimed: ClaimedTurn) => transcribeMessages(context, claimed, new AbortController().signal)
    return { on, asked, warnings, places, saved, run }
  }
  const transcriptsIn = (claimed: ClaimedTurn): unknown =>
    JSON.parse(claimed.messages[0]?.envelope?.attachments ?? '[]').map(
      ({ transcript }: { transcript?: string }) => transcript,
    )

  for (const jid of ['telegram:user/42', 'web:main'])
    test(`get a transcript once, beside the sound, in ${jid}`, async (t) => {
      const { on, asked, saved, run } = await claim(t, jid)
      const claimed = await run(saved)
      assert.deepEqual(transcriptsIn(claimed), [undefined, 'hello', 'hello'])
      const [row] = await on.read((tx) => envelopes.list(tx))
      assert.equal(row?.attachments, claimed.messages[0]?.envelope?.attachments)
      assert.match(row?.attachments ?? '', /"path":"\/home\/[a-z]+\/media\/\d{8}\/\d+-1-voice-7\.OGG"/)
      const sounds = asked.map(({ form }) => form.get('file'))
      assert.deepEqual(
        sounds.map((file) => (file instanceof File ? [file.name, file.type] : [])),
        [
          ['audio.ogg', 'audio/ogg'],
          ['audio.wav', 'audio/x-wav'],
        ],
      )
      await run(claimed)
      assert.equal(asked.length, 2)
    })

  test('that the agent has removed or replaced by a link have no transcript', async (t) => {
    const { asked, saved, warnings, places, run } = await claim(t, 'telegram:user/42')
    const [folder = ''] = readdirSync(join(places.groups, 'main', 'media'))
    const media = join(places.groups, 'main', 'media', folder)
    const [, voice = '', sound = ''] = readdirSync(media).sort()
    rmSync(join(media, voice))
    rmSync(join(media, sound))
    symlinkSync('/etc/passwd', join(media, sound))
    assert.deepEqual(transcriptsIn(await run(saved)), [undefined, undefined, undefined])
    assert.equal(asked.length, 0)
    assert.equal(warnings.length, 1)
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
