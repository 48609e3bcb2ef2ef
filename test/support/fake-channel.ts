// A fake platform: records the calls and fails on request.
import type { ActionName, Channel, ChannelActions, ChannelResolver } from '../../src/core/delivery/channel.ts'

export interface FakeCall {
  readonly action: ActionName
  /** The argument of the action. */
  readonly given: Record<string, unknown>
}

export interface FakeChannel extends Channel {
  readonly calls: FakeCall[]
  /** The next call throws this error, or runs this function first. */
  next(what: Error | ((call: FakeCall) => void | Promise<void>)): void
}

export interface FakeOptions {
  readonly platform?: string
  readonly isKeyed?: boolean
  readonly lacks?: readonly ActionName[]
  /** Whether it returns message ids. */
  readonly tellsIds?: boolean
}

const ACTIONS: readonly ActionName[] = [
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
]

export function fakeChannel(options: FakeOptions = {}): FakeChannel {
  const { platform = 'fake', isKeyed = true, lacks = [], tellsIds = true } = options
  const calls: FakeCall[] = []
  const coming: (Error | ((call: FakeCall) => void | Promise<void>))[] = []
  const does = (action: ActionName) => async (given: object) => {
    const call = { action, given: { ...given } }
    calls.push(call)
    const next = coming.shift()
    if (next instanceof Error) throw next
    await next?.(call)
    return tellsIds ? { id: `${platform}-${calls.length}` } : {}
  }
  const has = ACTIONS.filter((action) => !lacks.includes(action)).map((action) => [action, does(action)] as const)
  return {
    name: platform,
    platform,
    isInternal: false,
    isIdempotent: isKeyed,
    // One function implements all actions: each takes an object, and its result has all members that any of them needs.
    actions: Object.fromEntries(has) as Partial<ChannelActions>,
    hint: (action) => `instead of ${action}, use send(chatJid, text)`,
    calls,
    next: (what) => {
      coming.push(what)
    },
  }
}

/** Uses the fake channel for the chats of its platform. */
export function withChannel(channels: ChannelResolver, fake: Channel): ChannelResolver {
  return {
    resolve: async (jid, source) => (jid.startsWith(`${fake.platform}:`) ? fake : channels.resolve(jid, source)),
  }
}
