// Tests that every channel must pass: its actions work, it has a hint for each missing action, and its errors are permanent
// or transient as they should be.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { tempDir } from '../../test/support/temp.ts'
import {
  type ActionName,
  type Channel,
  type ChannelActions,
  ChannelError,
  type DeliveryReceipt,
} from '../core/delivery/channel.ts'

export interface ChannelUnderTest {
  readonly channel: Channel
  readonly jid: string
  /** The actions that the platform supports. */
  readonly abilities: readonly ActionName[]
  /** The contents that reached the platform with this key, in order. */
  delivered(key: string): Promise<readonly string[]>
  /** The threads that show a typing indicator in order, '' for the main one; absent if the platform has none. */
  typingIn?(): Promise<readonly string[]>
}

export const EVERY_ACTION = [
  'send',
  'send_file',
  'send_voice',
  'post',
  'forward',
  'quote',
  'repost',
  'like',
  'dislike',
  'edit',
  'delete',
  'pin_message',
  'unpin_message',
  'unpin_all',
  'pane_set_prompts',
  'pane_set_title',
  'fetch_history',
  'typing',
] as const satisfies readonly ActionName[]

/** The arguments of the tools that a hint may name. */
const TOOLS: Readonly<Record<string, readonly string[]>> = {
  send: ['chatJid', 'text'],
  reply: ['chatJid', 'text', 'replyToId'],
  send_file: ['chatJid', 'filepath', 'filename', 'caption'],
  post: ['chatJid', 'content', 'media'],
  like: ['chatJid', 'targetId', 'reaction'],
  delete: ['chatJid', 'targetId'],
  forward: ['sourceMsgId', 'targetJid', 'comment'],
  repost: ['chatJid', 'sourceMsgId'],
  unpin_message: ['chatJid', 'targetId'],
}

type ActionCalls = { readonly [A in ActionName]: (act: ChannelActions[A], on: Target) => Promise<unknown> }

interface Target {
  readonly jid: string
  readonly key: string
  /** The id of a message that was sent before. */
  readonly id: string
  readonly path: string
}

const ACTION_CALLS: ActionCalls = {
  send: (act, { jid, key }) => act({ jid, key, content: 'a text' }),
  send_file: (act, { jid, key, path }) => act({ jid, key, path, filename: 'a "note".txt', caption: 'a caption' }),
  send_voice: (act, { jid, key, path }) => act({ jid, key, path, filename: 'voice.ogg', mime: 'audio/ogg' }),
  post: (act, { jid, key, path }) => act({ jid, key, content: 'a post', media: [path] }),
  forward: (act, { jid, key, id }) => act({ jid, key, sourceMsgId: id, sourceJid: jid, comment: 'see this' }),
  quote: (act, { jid, key, id }) => act({ jid, key, sourceMsgId: id, sourceJid: jid, comment: 'well' }),
  repost: (act, { jid, key, id }) => act({ jid, key, sourceMsgId: id, sourceJid: jid }),
  like: (act, { jid, id }) => act({ jid, targetId: id, reaction: '👍' }),
  dislike: (act, { jid, id }) => act({ jid, targetId: id }),
  edit: (act, { jid, id }) => act({ jid, targetId: id, content: 'other words' }),
  delete: (act, { jid, id }) => act({ jid, targetId: id }),
  pin_message: (act, { jid, id }) => act({ jid, targetId: id }),
  unpin_message: (act, { jid, id }) => act({ jid, targetId: id }),
  unpin_all: (act, { jid }) => act({ jid }),
  pane_set_prompts: (act, { jid }) => act({ jid, prompts: [{ title: 'News', message: 'What is new?' }] }),
  pane_set_title: (act, { jid }) => act({ jid, title: 'A title' }),
  fetch_history: (act, { jid }) => act({ jid, limit: 10 }),
  typing: (act, { jid }) => act({ jid, on: true }),
}

const SEND_ACTIONS = ['send', 'send_file', 'send_voice', 'post', 'forward', 'quote', 'repost'] as const

export function testChannelContract(open: (t: TestContext) => Promise<ChannelUnderTest>): void {
  const setUp = async (t: TestContext) => {
    const subject = await open(t)
    const path = join(tempDir(t), 'note.txt')
    writeFileSync(path, 'text of the file')
    const { channel, jid } = subject
    const first = await channel.actions.send?.({ jid, key: 'the first', content: 'the first' })
    const target = { jid, key: 'another', id: first?.id ?? '', path }
    const perform = <A extends ActionName>(action: A, over: Partial<Target> = {}): Promise<unknown> => {
      const act = channel.actions[action]
      return act === undefined ? assert.fail(`${action} is missing`) : callAction(action, act, { ...target, ...over })
    }
    return { ...subject, target, perform }
  }

  test('offers exactly the actions of its platform', async (t) => {
    const { channel, abilities } = await setUp(t)
    assert.deepEqual(Object.keys(channel.actions).toSorted(), abilities.toSorted())
  })

  test('performs every action that it offers', async (t) => {
    const { abilities, perform } = await setUp(t)
    // Delete last: the other actions need the message.
    for (const action of abilities.toSorted((a, b) => Number(a === 'delete') - Number(b === 'delete')))
      await assert.doesNotReject(perform(action, { key: `key of ${action}` }), action)
  })

  test('names existing tools and arguments in the hints for missing actions', async (t) => {
    const { channel, abilities } = await setUp(t)
    for (const action of EVERY_ACTION.filter((name) => !abilities.includes(name))) {
      const hint = channel.hint(action)
      assert.notEqual(hint, '')
      for (const [, tool = '', args = ''] of hint.matchAll(/(\w+)\(([^)]*)\)/g))
        for (const name of args.split(/,\s*/)) assert.ok(TOOLS[tool]?.includes(name), `${tool} has no ${name}`)
    }
  })

  test('delivers messages and returns usable ids', async (t) => {
    const { channel, perform, delivered, abilities } = await setUp(t)
    if (channel.isInternal) return
    for (const action of SEND_ACTIONS.filter((name) => abilities.includes(name))) {
      const sent = (await perform(action, { key: action })) as DeliveryReceipt
      assert.equal((await delivered(action)).length, 1, action)
      if (abilities.includes('pin_message')) await perform('pin_message', { id: sent.id ?? assert.fail(action) })
    }
  })

  test('delivers the same key once if and only if it is idempotent', async (t) => {
    const { channel, perform, delivered, abilities } = await setUp(t)
    if (channel.isInternal) return
    for (const action of SEND_ACTIONS.filter((name) => abilities.includes(name))) {
      const [one, two] = [await perform(action, { key: action }), await perform(action, { key: action })]
      assert.equal((await delivered(action)).length, channel.isIdempotent ? 1 : 2, action)
      if (channel.isIdempotent) assert.deepEqual(one, two)
    }
  })

  test('fails permanently for a missing file', async (t) => {
    const { channel, abilities, perform } = await setUp(t)
    // Its files are stored when the message is recorded.
    if (channel.isInternal) return
    for (const action of (['send_file', 'send_voice'] as const).filter((name) => abilities.includes(name)))
      await assert.rejects(perform(action, { path: '/nowhere/at/all' }), isChannelError('permanent'))
  })

  test('fails permanently for a missing message', async (t) => {
    const { abilities, perform } = await setUp(t)
    for (const action of ['like', 'dislike', 'edit', 'delete', 'pin_message', 'unpin_message'] as const)
      if (abilities.includes(action))
        await assert.rejects(perform(action, { id: 'none' }), isChannelError('permanent'), action)
  })

  test('returns the history oldest first, with edits and without deleted messages', async (t) => {
    const { channel, jid, target, perform, abilities } = await setUp(t)
    if (!channel.actions.fetch_history) return
    await perform('send', { key: 'second' })
    if (abilities.includes('edit')) await perform('edit')
    const { messages } = await channel.actions.fetch_history({ jid, limit: 10 })
    assert.deepEqual(
      messages.map(({ id, content, isFromMe }) => [id, content, isFromMe]),
      [
        [target.id, abilities.includes('edit') ? 'other words' : 'the first', true],
        [messages[1]?.id, 'a text', true],
      ],
    )
    if (!abilities.includes('delete')) return
    await perform('delete')
    assert.equal((await channel.actions.fetch_history({ jid, limit: 10 })).messages.length, 1)
  })

  test('shows typing in each thread of a chat separately', async (t) => {
    const { channel, jid, typingIn } = await setUp(t)
    const { typing } = channel.actions
    assert.equal(typing === undefined, typingIn === undefined)
    const steps: [threadId: string | undefined, on: boolean, shown: string[]][] = [
      ['news', true, ['news']],
      ['help', true, ['help', 'news']],
      [undefined, true, ['', 'help', 'news']],
      ['news', false, ['', 'help']],
      [undefined, false, ['help']],
      ['help', false, []],
    ]
    for (const [threadId, on, shown] of typing ? steps : []) {
      await typing?.({ jid, threadId, on })
      assert.deepEqual((await typingIn?.())?.toSorted(), shown)
    }
  })
}

/** A generic function, so that the compiler relates the action to its arguments. */
function callAction<A extends ActionName>(action: A, act: ChannelActions[A], target: Target): Promise<unknown> {
  const perform: ActionCalls[A] = ACTION_CALLS[action]
  return perform(act, target)
}

/** For `assert.rejects`. */
export function isChannelError(kind: ChannelError['kind'], text: string | RegExp = ''): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ChannelError, String(error))
    assert.equal(error.kind, kind, error.message)
    if (text !== '') assert.match(error.message, new RegExp(text))
    return true
  }
}
