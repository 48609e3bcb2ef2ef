import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { type ButtonPress, openInboundHost, pressButton, sendAsTeam } from '../../../test/support/inbound-host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import {
  deleteInRoom,
  editInRoom,
  entryId,
  findButton,
  listRoomEntries,
  postInRoom,
  reactInRoom,
  sandboxRooms,
  unreactInRoom,
} from '../../core/delivery/sandbox-rooms.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import {
  type ChannelUnderTest,
  EVERY_ACTION,
  type InboundUnderTest,
  type PlatformEvent,
  testChannelContract,
  testInboundContract,
} from '../channel.contract.ts'
import { openChannel } from './adapter.ts'

const jid = 'sandbox:lobby'

async function openSandbox(t: TestContext, engine: EngineName) {
  const { host, answerAll, stored } = await openInboundHost(t, engine, jid)
  const entries = () => host.engine.read((tx) => listRoomEntries(tx, jid, { limit: 100 }))
  return { host, channel: openChannel(host), entries, answerAll, stored }
}

onEveryEngine('the sandbox', (engine) => {
  testChannelContract(async (t): Promise<ChannelUnderTest> => {
    const { host, channel, entries } = await openSandbox(t, engine)
    const delivered: ChannelUnderTest['delivered'] = async (key) =>
      (await entries()).filter((entry) => entry.key === key).map(({ content }) => content)
    const typingIn = async (): Promise<string[]> => {
      const room = await host.engine.read((tx) => sandboxRooms.find(tx, { jid }))
      return [...(room?.is_typing ? [''] : []), ...(room?.typing_topics ?? [])]
    }
    const drafts = async (): Promise<string[]> => {
      const room = await host.engine.read((tx) => sandboxRooms.find(tx, { jid }))
      return Object.values(room?.drafts ?? {}).map(({ content }) => content)
    }
    const buttonsOf = async (id: string): Promise<string[]> =>
      ((await entries()).find((entry) => entryId(entry) === id)?.buttons ?? []).map((button) => button.id)
    return { channel, jid, abilities: EVERY_ACTION, delivered, typingIn, drafts, buttonsOf }
  })

  testInboundContract(async (t): Promise<InboundUnderTest> => {
    const { host, channel, answerAll, stored } = await openSandbox(t, engine)
    const context = writeContextOf(host)
    const presses: ButtonPress[] = []
    const change = (event: PlatformEvent): Promise<string> =>
      host.engine.transaction(async (tx) => {
        const at = { room: jid, ...event }
        if (at.kind === 'press') {
          const { sender } = await findButton(tx, at)
          presses.push({ jid, message: at.id, action: at.button, sender })
          return at.id
        }
        if (at.kind === 'message') {
          const { text: content, thread: topic } = at
          return entryId((await postInRoom(tx, context, { ...at, content, topic })).entry)
        }
        if (at.kind === 'edit') await editInRoom(tx, context, { ...at, content: at.text })
        else if (at.kind === 'delete') await deleteInRoom(tx, context, at)
        else if (at.kind === 'reaction') await reactInRoom(tx, context, at)
        else await unreactInRoom(tx, context, at)
        return at.id
      })
    const deliver = async (event: PlatformEvent): Promise<string> => {
      const id = await change(event)
      for (const press of presses.splice(0)) await pressButton(host, press)
      return id
    }
    const send: InboundUnderTest['send'] = (content, topic = '', buttons) =>
      sendAsTeam(host, channel, { jid, content, topic, buttons })
    return { jid, deliver, hasOtherAccounts: false, send, answerAll, stored }
  })

  test('clears the text of a deleted message', async (t) => {
    const { channel, entries } = await openSandbox(t, engine)
    const { id = '' } = (await channel.actions.send?.({ jid, key: 'k', content: 'a secret' })) ?? {}
    await channel.actions.delete?.({ jid, targetId: id })
    assert.equal((await entries())[0]?.content, '')
  })

  test('refuses a reply to a missing message but not to a deleted one', async (t) => {
    const { channel, entries } = await openSandbox(t, engine)
    const { send, delete: remove } = channel.actions
    const { id } = (await send?.({ jid, key: 'k1', content: 'hello' })) ?? {}
    await assert.rejects(async () => send?.({ jid, key: 'k2', content: 'what?', replyTo: 'never' }), {
      kind: 'permanent',
      message: `there is no message never in ${jid}`,
    })
    await remove?.({ jid, targetId: id ?? '' })
    await send?.({ jid, key: 'k3', content: 'about that', replyTo: id })
    assert.equal((await entries()).at(-1)?.content, 'about that')
  })

  test('shows the name of the agent that writes', async (t) => {
    const { channel, entries } = await openSandbox(t, engine)
    const [agentName, path] = ['Ada Bright', join(tempDir(t), 'x')]
    writeFileSync(path, 'x')
    const { id = '' } = (await channel.actions.send?.({ jid, key: 'k1', content: 'hello', agentName })) ?? {}
    await channel.actions.send_file?.({ jid, key: 'k2', path, filename: 'x', agentName })
    await channel.actions.post?.({ jid, key: 'k3', content: 'look', media: [path], agentName })
    await channel.actions.quote?.({ jid, key: 'k4', sourceMsgId: id, sourceJid: jid, agentName })
    await channel.actions.send?.({ jid, key: 'k5', content: 'of no agent' })
    const authors = (await entries()).map(({ author }) => author)
    assert.deepEqual(authors, [agentName, agentName, agentName, agentName, 'svc'])
    const [message] = (await channel.actions.fetch_history?.({ jid, limit: 1 }))?.messages ?? []
    assert.deepEqual([message?.sender, message?.isFromMe], ['svc', true])
  })

  test('keeps the file names of a post', async (t) => {
    const { channel, entries } = await openSandbox(t, engine)
    const path = join(tempDir(t), '0199.png')
    writeFileSync(path, 'x')
    await channel.actions.post?.({ jid, key: 'k', content: 'look', media: [path], mediaNames: ['cat.png'] })
    assert.deepEqual(
      (await entries())[0]?.files?.map(({ filename }) => filename),
      ['cat.png'],
    )
  })

  test('saves reactions, pins, edits and panes in the room', async (t) => {
    const { host, channel, entries } = await openSandbox(t, engine)
    const { id = '' } = (await channel.actions.send?.({ jid, key: 'k', content: 'hello', threadId: 'news' })) ?? {}
    await channel.actions.like?.({ jid, targetId: id, reaction: '🎉' })
    await channel.actions.like?.({ jid, targetId: id, reaction: '🎉' })
    await channel.actions.dislike?.({ jid, targetId: id })
    await channel.actions.pin_message?.({ jid, targetId: id })
    await channel.actions.edit?.({ jid, targetId: id, content: 'hello all' })
    await channel.actions.pane_set_title?.({ jid, title: 'Help' })
    await channel.actions.typing?.({ jid, on: true })
    const [entry] = await entries()
    assert.deepEqual(entry?.reactions, { '🎉': ['svc'], '👎': ['svc'] })
    assert.deepEqual([entry?.is_pinned, entry?.content, entry?.topic], [true, 'hello all', 'news'])
    assert.ok(entry?.edited_at)
    const room = await host.engine.read((tx) => sandboxRooms.find(tx, { jid }))
    assert.deepEqual([room?.title, room?.is_typing], ['Help', true])
    await channel.actions.unpin_all?.({ jid })
    assert.equal((await entries())[0]?.is_pinned, false)
  })
})
