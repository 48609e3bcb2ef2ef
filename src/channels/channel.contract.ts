// Tests that every channel must pass. Outbound: its actions work, it has a hint for each missing action, and its errors are
// permanent or transient as they should be. Inbound: svc stores what happens on the platform, once.
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
  type MessageButton,
} from '../core/delivery/channel.ts'
import type { Envelope } from '../core/messages/envelopes.ts'

export interface ChannelUnderTest {
  readonly channel: Channel
  readonly jid: string
  /** The actions that the platform supports. */
  readonly abilities: readonly ActionName[]
  /** The contents that reached the platform with this key, in order. */
  delivered(key: string): Promise<readonly string[]>
  /** The threads that show a typing indicator in order, '' for the main one; absent if the platform has none. */
  typingIn?(): Promise<readonly string[]>
  /** The ids of the buttons below a message; absent if the platform has none. */
  buttonsOf?(id: string): Promise<readonly string[]>
  /** What agents are writing, as people see it; absent if the platform shows no drafts. */
  drafts?(): Promise<readonly string[]>
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
  'draft',
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
  draft: (act, { jid }) => act({ jid, key: 'turn', content: 'so far', isDone: false }),
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

  test('shows buttons below a message until it is edited', async (t) => {
    const { channel, jid, buttonsOf } = await setUp(t)
    const { send, edit } = channel.actions
    assert.equal(channel.hasButtons ?? false, buttonsOf !== undefined)
    if (!buttonsOf) return
    const buttons = [
      { id: 'yes', label: 'Yes', style: 'primary' },
      { id: 'no-1', label: 'No' },
    ] as const
    const { id = '' } = (await send?.({ jid, key: 'asked', content: 'shall I?', buttons })) ?? {}
    assert.deepEqual(await buttonsOf(id), ['yes', 'no-1'])
    await edit?.({ jid, targetId: id, content: 'you said yes' })
    assert.deepEqual(await buttonsOf(id), [])
  })

  test('shows the last text of a draft until the turn sends its message or none', async (t) => {
    const { channel, jid, drafts } = await setUp(t)
    const { draft, send } = channel.actions
    assert.equal(draft === undefined, drafts === undefined)
    if (!draft || !drafts) return
    const at = { jid, threadId: 'news', isDone: false }
    for (const content of ['one', 'one two']) await draft({ ...at, key: 'turn 1', content })
    await draft({ ...at, key: 'turn 2', content: 'other' })
    assert.deepEqual((await drafts()).toSorted(), ['one two', 'other'])
    await send?.({ jid, threadId: 'news', key: 'an answer', content: 'one two three', turnId: 'turn 1' })
    assert.deepEqual(await drafts(), ['other'])
    await draft({ ...at, key: 'turn 2', content: '', isDone: true })
    assert.deepEqual(await drafts(), [])
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

/** What happens on a platform. People are named without the platform. */
export type PlatformEvent =
  | {
      readonly kind: 'message'
      readonly person: string
      readonly text: string
      readonly replyTo?: string
      readonly thread?: string
      /** Another bot wrote it. The adapter passes it on with the verb `untrusted`, or not at all. */
      readonly isBot?: boolean
      /** The agent's own account wrote it. */
      readonly isOwn?: boolean
    }
  | { readonly kind: 'edit'; readonly person: string; readonly id: string; readonly text: string }
  | { readonly kind: 'delete'; readonly person: string; readonly id: string }
  | {
      readonly kind: 'reaction' | 'reaction removed'
      readonly person: string
      readonly id: string
      readonly emoji: string
    }
  | { readonly kind: 'press'; readonly person: string; readonly id: string; readonly button: string }

export interface InboundUnderTest {
  readonly jid: string
  /** Everything that svc received in the chat, oldest first. */
  stored(): Promise<StoredMessage[]>
  /** Returns when svc has the event: the platform id of a new message, else any text. */
  deliver(event: PlatformEvent): Promise<string>
  /** Delivers the last event again; absent if the platform never does. */
  redeliver?(): Promise<unknown>
  /** Whether messages of bots and of the agent's own account can arrive. */
  readonly hasOtherAccounts: boolean
  /** Sends as the agent of `team`, and returns the platform id. */
  send(text: string, thread?: string, buttons?: readonly MessageButton[]): Promise<string>
  /** Routes what has arrived to `team`, and ends its turns. */
  answerAll(): Promise<void>
}

export interface StoredMessage
  extends Pick<Envelope, 'verb' | 'platform_id' | 'reply_to_id' | 'edited_at' | 'deleted_at'> {
  readonly text: string
  readonly sender: string
  readonly topic: string | undefined
}

export function testInboundContract(open: (t: TestContext) => Promise<InboundUnderTest>): void {
  const setUp = async (t: TestContext) => {
    const subject = await open(t)
    const { jid, deliver, stored } = subject
    const last = async () => (await stored()).at(-1) ?? assert.fail('nothing is stored')
    const say = (text: string, over: object = {}) => deliver({ kind: 'message', person: 'mia', text, ...over })
    return { ...subject, last, say, platform: jid.slice(0, jid.indexOf(':')) }
  }
  type Subject = Awaited<ReturnType<typeof setUp>>

  /** Delivers the last event again, which must change nothing. */
  const again = async ({ redeliver, stored }: Subject): Promise<void> => {
    if (!redeliver) return
    const before = await stored()
    await redeliver()
    assert.deepEqual(await stored(), before)
  }

  test('stores a message with its id, sender and text, once', async (t) => {
    const on = await setUp(t)
    const id = await on.say('hello\nall 😀')
    const { text, sender, platform_id, verb, topic } = await on.last()
    assert.deepEqual([text, platform_id, verb, topic], ['hello\nall 😀', id, 'message', undefined])
    assert.equal(sender.slice(0, sender.indexOf(':')), on.platform)
    await again(on)
  })

  test('stores the same words twice if they were written twice', async (t) => {
    const on = await setUp(t)
    assert.notEqual(await on.say('hello'), await on.say('hello'))
    assert.equal((await on.stored()).length, 2)
  })

  test('stores the thread, and the message that is answered', async (t) => {
    const on = await setUp(t)
    const id = await on.say('first', { thread: 'news' })
    await on.say('second', { thread: 'news', replyTo: id, person: 'noa' })
    const { topic, reply_to_id, verb } = await on.last()
    assert.deepEqual([topic, reply_to_id, verb], ['news', id, 'message'])
  })

  test('stores an answer to the agent as a mention', async (t) => {
    const on = await setUp(t)
    const id = await on.send('what now?')
    await on.say('that', { replyTo: id })
    assert.equal((await on.last()).verb, 'mention')
  })

  test('replaces the text of an edited message, once', async (t) => {
    const on = await setUp(t)
    const id = await on.say('helo')
    await on.deliver({ kind: 'edit', person: 'mia', id, text: 'hello' })
    await again(on)
    const [message, ...others] = await on.stored()
    assert.deepEqual([message?.text, message?.platform_id, others], ['hello', id, []])
    assert.ok(message?.edited_at)
  })

  test('clears a deleted message, once, also after an edit', async (t) => {
    const on = await setUp(t)
    const id = await on.say('helo')
    await on.deliver({ kind: 'edit', person: 'mia', id, text: 'hello' })
    await on.deliver({ kind: 'delete', person: 'mia', id })
    await again(on)
    const [message, ...others] = await on.stored()
    assert.deepEqual([message?.text, others], ['', []])
    assert.ok(message?.deleted_at)
  })

  test('tells the agent of changes of a message that it has answered, once', async (t) => {
    const on = await setUp(t)
    const id = await on.say('helo')
    await on.answerAll()
    await on.deliver({ kind: 'edit', person: 'mia', id, text: 'hello' })
    await again(on)
    await on.deliver({ kind: 'delete', person: 'mia', id })
    await again(on)
    const [, ...notices] = await on.stored()
    assert.deepEqual(
      notices.map(({ verb, reply_to_id, text }) => [verb, reply_to_id, text]),
      [
        ['edit', id, ''],
        ['delete', id, ''],
      ],
    )
  })

  test('stores reactions, and that they were removed', async (t) => {
    const on = await setUp(t)
    const id = await on.send('done')
    for (const kind of ['reaction', 'reaction removed'] as const)
      await on.deliver({ kind, person: 'mia', id, emoji: '👎' })
    assert.deepEqual(
      (await on.stored()).map(({ verb, reply_to_id, text }) => [verb, reply_to_id, text]),
      [
        ['dislike', id, '👎'],
        ['unlike', id, '👎'],
      ],
    )
  })

  test('never stores the press of a button as a message', async (t) => {
    const on = await setUp(t)
    const id = await on.send('shall I?', '', [{ id: 'yes', label: 'Yes' }])
    await on.deliver({ kind: 'press', person: 'mia', id, button: 'yes' })
    assert.deepEqual(await on.stored(), [])
    await again(on)
  })

  test('does not store what the agent wrote', async (t) => {
    const on = await setUp(t)
    if (!on.hasOtherAccounts) return
    await on.say('my own words', { isOwn: true })
    assert.deepEqual(await on.stored(), [])
  })

  test('never takes a message of another bot for a mention', async (t) => {
    const on = await setUp(t)
    if (!on.hasOtherAccounts) return
    const id = await on.send('what now?')
    await on.say('beep', { isBot: true, replyTo: id })
    for (const { verb } of await on.stored()) assert.equal(verb, 'untrusted')
  })
}
