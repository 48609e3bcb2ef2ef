import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { tempDir } from '../../test/support/temp.ts'
import { startTurn } from '../../test/support/turns.ts'
import type { SpeechSynthesizer } from '../core/delivery/speech.ts'
import { refuse } from '../lib/refusal.ts'
import { voiceTools } from './voice.ts'

function speaker(t: TestContext) {
  const sound = join(tempDir(t), '1.ogg')
  writeFileSync(sound, 'sound')
  const asked: [string, string | undefined][] = []
  const speech: SpeechSynthesizer = {
    synthesize: async (text, voice) => {
      asked.push([text, voice])
      if (text === 'nobody is there') refuse('unavailable', 'the speech service does not answer')
      return { path: sound, mime: 'audio/ogg' }
    },
  }
  return { asked, speech }
}

onEveryEngine('saying something aloud', (engine) => {
  test('the text is spoken, sent into the thread, and recorded in words', async (t) => {
    const { asked, speech } = speaker(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    await startTurn(t, here, { folder: 'team', jid: ROOM, topic: 't7' })
    let heard = ''
    here.fake.next(({ given }) => {
      heard = readFileSync(String(given.path), 'utf8')
    })
    const tools = await here.tools()
    assert.deepEqual(await tools.call('send_voice', { chatJid: ROOM, text: '  good morning\n' }), {
      ok: true,
      id: 'fake-1',
    })
    assert.deepEqual(asked, [['good morning', undefined]])
    const { jid, filename, mime, threadId } = here.fake.calls[0]?.given ?? {}
    assert.deepEqual([jid, filename, mime, threadId, heard], [ROOM, 'voice.ogg', 'audio/ogg', 't7', 'sound'])
    assert.deepEqual(readdirSync(join(here.home, '..', '..', 'outbox')), [])
    assert.deepEqual(
      (await here.said()).map(({ content, action, state }) => [content, action, state]),
      [['good morning', 'send_voice', 'sent']],
    )
  })

  test('the voice is the one that is asked for, else that of the persona, else the instance’s own', async (t) => {
    const { asked, speech } = speaker(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    const tools = await here.tools()
    await tools.call('send_voice', { chatJid: ROOM, text: 'a' })
    writeFileSync(join(here.home, 'PERSONA.md'), '---\nvoice: nova\n---\n')
    await tools.call('send_voice', { chatJid: ROOM, text: 'b' })
    await tools.call('send_voice', { chatJid: ROOM, text: 'c', voice: 'onyx' })
    assert.deepEqual(
      asked.map(([, voice]) => voice),
      [undefined, 'nova', 'onyx'],
    )
  })

  test('a text has 1 to 5000 characters, whatever each of them is made of', async (t) => {
    const { asked, speech } = speaker(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    const tools = await here.tools()
    // 4999 characters that are 9998 units of UTF-16; blanks around do not count.
    for (const text of ['x'.repeat(5000), '😀'.repeat(4999), ` ${'x'.repeat(5000)} `])
      await tools.call('send_voice', { chatJid: ROOM, text })
    for (const text of ['', ' \n ', 'x'.repeat(5001), '😀'.repeat(5001), 7, undefined])
      assert.match(await tools.refusal('send_voice', { chatJid: ROOM, text }), /text/)
    for (const voice of ['', 'a\nb', 'x'.repeat(65)])
      assert.match(await tools.refusal('send_voice', { chatJid: ROOM, text: 'x', voice }), /voice/)
    assert.equal(asked.length, 3)
  })

  test('rules and reach come before anybody is asked to speak', async (t) => {
    const { asked, speech } = speaker(t)
    const here = await chatTools(t, engine, voiceTools, { speech })
    const tools = await here.tools()
    assert.match(await tools.refusal('send_voice', { chatJid: OTHER_ROOM, text: 'x' }), /outside team/)
    assert.match(
      await tools.refusal('send_voice', { chatJid: 'web:team', text: 'x' }),
      /^unsupported: send_voice on web\n/,
    )
    await here.grant('folder:team', 'mcp:send_voice', 'team', 'deny', `jid=${ROOM}`)
    assert.match(await tools.refusal('send_voice', { chatJid: ROOM, text: 'x' }), /not permitted/)
    assert.deepEqual([asked, await here.said()], [[], []])
  })

  test('without a service it is unsupported, and one that does not answer is said; nothing is recorded', async (t) => {
    const mute = await chatTools(t, engine, voiceTools)
    assert.match(
      await (await mute.tools()).refusal('send_voice', { chatJid: ROOM, text: 'x' }),
      /^unsupported: send_voice on fake\nhint: send the text with send\(chatJid, text\).*TTS_URL$/,
    )
    const here = await chatTools(t, engine, voiceTools, { speech: speaker(t).speech })
    assert.equal(
      await (await here.tools()).refusal('send_voice', { chatJid: ROOM, text: 'nobody is there' }),
      'the speech service does not answer',
    )
    assert.deepEqual([await mute.said(), await here.said()], [[], []])
  })
})
