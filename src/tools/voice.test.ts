import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { tempDir } from '../../test/support/temp.ts'
import { startTurn } from '../../test/support/turns.ts'
import type { SpeechSynthesizer } from '../core/delivery/speech.ts'
import { chatFiles } from '../core/files/chat-files.ts'
import { refuse } from '../lib/refusal.ts'
import { routeTokensResource } from '../resources/route-tokens.ts'
import { voiceTools } from './voice.ts'

function fakeSpeech(t: TestContext) {
  const path = join(tempDir(t), '1.ogg')
  writeFileSync(path, 'sound')
  const requests: [string, string | undefined][] = []
  const speech: SpeechSynthesizer = {
    synthesize: async (text, voice) => {
      requests.push([text, voice])
      if (text === 'no service') refuse('unavailable', 'the speech service timed out')
      return { path, mime: 'audio/ogg' }
    },
  }
  return { requests, speech }
}

onEveryEngine('send_voice', (engine) => {
  test('synthesizes the text, sends it into the thread and records the text', async (t) => {
    const { requests, speech } = fakeSpeech(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    await startTurn(t, here, { folder: 'team', jid: ROOM, topic: 't7' })
    let content = ''
    here.fake.next(({ given }) => {
      content = readFileSync(String(given.path), 'utf8')
    })
    const tools = await here.tools()
    assert.deepEqual(await tools.call('send_voice', { chatJid: ROOM, text: '  good morning\n' }), {
      ok: true,
      id: 'fake-1',
    })
    assert.deepEqual(requests, [['good morning', undefined]])
    const { jid, filename, mime, threadId } = here.fake.calls[0]?.given ?? {}
    assert.deepEqual([jid, filename, mime, threadId, content], [ROOM, 'voice.ogg', 'audio/ogg', 't7', 'sound'])
    assert.deepEqual(readdirSync(join(here.home, '..', '..', 'outbox')), [])
    assert.deepEqual(
      (await here.said()).map(({ content, action, state }) => [content, action, state]),
      [['good morning', 'send_voice', 'sent']],
    )
  })

  test('stores the voice message for the visitors of a link, by its content', async (t) => {
    const { speech } = fakeSpeech(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    const { jid } = await here.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'team' })
    await (await here.tools()).call('send_voice', { chatJid: jid, text: 'good morning' })
    const [file] = await here.host.engine.read((tx) => chatFiles.list(tx))
    assert.deepEqual([file?.name, file?.type, file?.size], ['voice.ogg', 'text/plain', 5])
    assert.deepEqual(
      (await here.said()).map(({ content, action, state }) => [content, action, state]),
      [['good morning', 'send_voice', 'sent']],
    )
  })

  test('uses the given voice, else that of the persona, else the default', async (t) => {
    const { requests, speech } = fakeSpeech(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    const tools = await here.tools()
    await tools.call('send_voice', { chatJid: ROOM, text: 'a' })
    writeFileSync(join(here.home, 'PERSONA.md'), '---\nvoice: nova\n---\n')
    await tools.call('send_voice', { chatJid: ROOM, text: 'b' })
    await tools.call('send_voice', { chatJid: ROOM, text: 'c', voice: 'onyx' })
    assert.deepEqual(
      requests.map(([, voice]) => voice),
      [undefined, 'nova', 'onyx'],
    )
  })

  test('accepts texts of 1 to 5000 characters, counted in code points', async (t) => {
    const { requests, speech } = fakeSpeech(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    const tools = await here.tools()
    // 4999 characters are 9998 UTF-16 units; surrounding blanks do not count.
    for (const text of ['x'.repeat(5000), '😀'.repeat(4999), ` ${'x'.repeat(5000)} `])
      await tools.call('send_voice', { chatJid: ROOM, text })
    for (const text of ['', ' \n ', 'x'.repeat(5001), '😀'.repeat(5001), 7, undefined])
      assert.match(await tools.refusal('send_voice', { chatJid: ROOM, text }), /text/)
    for (const voice of ['', 'a\nb', 'x'.repeat(65)])
      assert.match(await tools.refusal('send_voice', { chatJid: ROOM, text: 'x', voice }), /voice/)
    assert.equal(requests.length, 3)
  })

  test('checks access before it calls the speech service', async (t) => {
    const { requests, speech } = fakeSpeech(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    const tools = await here.tools()
    assert.match(await tools.refusal('send_voice', { chatJid: OTHER_ROOM, text: 'x' }), /outside team/)
    await here.grant('folder:team', 'mcp:send_voice', 'team', 'deny', `jid=${ROOM}`)
    assert.match(await tools.refusal('send_voice', { chatJid: ROOM, text: 'x' }), /not permitted/)
    assert.deepEqual([requests, await here.said()], [[], []])
  })

  test('records nothing without a speech service or when it fails', async (t) => {
    const withoutSpeech = await chatTools(t, engine, voiceTools)
    assert.match(
      await (await withoutSpeech.tools()).refusal('send_voice', { chatJid: ROOM, text: 'x' }),
      /^unsupported: send_voice on fake\nhint: send the text with send\(chatJid, text\).*TTS_URL$/,
    )
    const here = await chatTools(t, engine, voiceTools, { speech: fakeSpeech(t).speech })
    assert.equal(
      await (await here.tools()).refusal('send_voice', { chatJid: ROOM, text: 'no service' }),
      'the speech service timed out',
    )
    assert.deepEqual([await withoutSpeech.said(), await here.said()], [[], []])
  })
})
