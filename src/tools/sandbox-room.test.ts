// Every tool that says or does something, in a room of the sandbox that people speak in too.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { chatTools } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { entryId, listRoomEntries, postInRoom, sandboxRooms } from '../core/delivery/sandbox-rooms.ts'
import { setUpFolder } from '../core/groups/products.ts'
import { fileTools } from './file.ts'
import { messageActionTools } from './message-actions.ts'
import { messageEditTools } from './message-edits.ts'
import { paneTools } from './pane.ts'
import { relayTools } from './relay.ts'
import { sendTools } from './send.ts'
import { voiceTools } from './voice.ts'

const ROOM = 'sandbox:hall'

onEveryEngine('chat tools in the sandbox', (engine) => {
  test('show all messages and actions in the room', async (t) => {
    const verbs = [messageActionTools, fileTools, paneTools, relayTools, messageEditTools, sendTools, voiceTools].flat()
    const sound = { path: join(import.meta.dirname, 'voice.ts'), mime: 'audio/ogg' }
    const here = await chatTools(t, engine, verbs, { speech: { synthesize: async () => sound } })
    const { host } = here
    const speaking = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
    const { entry } = await host.engine.transaction((tx) =>
      postInRoom(tx, speaking, { room: 'hall', person: 'mia', content: 'hello' }),
    )
    assert.ok(host.layout)
    await setUpFolder(host.layout, 'main')
    writeFileSync(join(host.layout.groups, 'main', 'a.txt'), 'abc')
    const tools = await here.tools('main')
    const [chatJid, mia] = [ROOM, entryId(entry)]
    const id = async (name: string, args: Record<string, unknown>): Promise<string> => {
      const answer = await tools.call(name, args)
      assert.ok(typeof answer === 'object' && answer && 'id' in answer)
      return String(answer.id)
    }
    await tools.call('reply', { chatJid, text: 'hello mia', replyToId: mia })
    await tools.call('send', { chatJid, text: 'to all' })
    const post = await id('post', { chatJid, content: 'news' })
    await id('forward', { sourceMsgId: `${ROOM}|${mia}`, targetJid: chatJid, comment: 'heard' })
    await id('quote', { sourceMsgId: post, chatJid, comment: 'said' })
    await id('repost', { sourceMsgId: post, chatJid })
    await id('send_voice', { chatJid, text: 'aloud' })
    await tools.call('send_file', { chatJid, filepath: '/home/node/a.txt', caption: 'as requested' })
    await tools.call('like', { chatJid, targetId: mia, reaction: '🎉' })
    await tools.call('dislike', { chatJid, targetId: mia })
    await tools.call('pin_message', { chatJid, targetId: post })
    await tools.call('unpin_message', { chatJid, targetId: post })
    await tools.call('pin_message', { chatJid, targetId: post })
    await tools.call('unpin_all', { chatJid })
    await tools.call('edit', { chatJid, targetId: post, content: 'better news' })
    await tools.call('delete', { chatJid, targetId: post })
    await tools.call('pane_set_title', { chatJid, title: 'The hall' })
    await tools.call('pane_set_prompts', { chatJid, prompts: [{ title: 'Help', message: 'help' }] })
    const entries = await host.engine.read((tx) => listRoomEntries(tx, ROOM, { limit: 50 }))
    assert.deepEqual(
      entries.map(({ kind, reply_to, source_id }) => [kind, reply_to, source_id]),
      [
        ['send', undefined, undefined],
        ['send', mia, undefined],
        ['send', undefined, undefined],
        ['post', undefined, undefined],
        ['forward', undefined, mia],
        ['quote', undefined, post],
        ['repost', undefined, post],
        ['send_voice', undefined, undefined],
        ['send_file', undefined, undefined],
      ],
    )
    assert.deepEqual(Object.keys(entries[0]?.reactions ?? {}), ['🎉', '👎'])
    const posted = entries.find((each) => entryId(each) === post)
    assert.ok(posted?.deleted_at !== undefined && posted.edited_at !== undefined && !posted.is_pinned)
    const [file] = entries.at(-1)?.files ?? []
    assert.deepEqual([file?.filename, file?.size], ['a.txt', 3])
    const room = await host.engine.read((tx) => sandboxRooms.find(tx, { jid: ROOM }))
    assert.deepEqual([room?.title, room?.prompts?.length], ['The hall', 1])
    assert.ok((await here.said()).every(({ state, platform_id }) => state === 'sent' && platform_id !== undefined))
  })
})
