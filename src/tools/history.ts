// Tools that read the history of a chat.
import { z } from 'zod'
import { readChatPage } from '../core/chats/chat-page.ts'
import { CursorTime, parseTimeCursor } from '../core/chats/time-cursor.ts'
import { type Channel, ChannelError, type PlatformHistory } from '../core/delivery/channel.ts'
import { storeFetchedMessages } from '../core/messages/fetched-messages.ts'
import { viewMessages } from '../core/messages/message-view.ts'
import { ChatName, multilineText, pageLimit } from '../core/values.ts'
import { Refusal } from '../lib/refusal.ts'
import { requireChatAccess } from '../permissions/chat-access.ts'
import type { Context, InstanceHost } from '../registry/context.ts'
import type { NamedVerb } from '../registry/resource.ts'
import { defineTool } from '../registry/tool.ts'
import type { Tx } from '../store/engine.ts'
import { type ChatVisibility, chatVisibility } from './chat/chat-visibility.ts'

const Before = CursorTime.optional().describe(
  'Only messages older than this RFC 3339 time; the `oldest` of a page gives the next page without gaps or repeats',
)
const ChatQuery = z.object({ chat_jid: ChatName, limit: pageLimit(100, 200), before: Before })
/** Shared by all history tools. */
const READ_CHAT = {
  reach: 'chat',
  activity: 'Reading messages',
  tiers: { granted: 2 },
  authorize: requireChatAccess<{ chat_jid: string }>(({ chat_jid }) => chat_jid),
  isReadOnly: true,
} as const

/** An adapter that does not respond within this time counts as down. */
const ADAPTER_TIMEOUT_MS = 10_000

const MessageObject = z.record(z.string(), z.unknown())
const HistoryPage = z.object({
  messages: z.array(MessageObject),
  count: z.int(),
  oldest: z.string(),
  source: z.string(),
})

export const historyTools: readonly NamedVerb[] = [
  defineTool({
    ...READ_CHAT,
    name: 'fetch_history',
    when: 'Read the messages of a chat, oldest first, from its platform if the platform supports it.',
    input: ChatQuery,
    run: (ctx, { chat_jid }) => chatVisibility(ctx, chat_jid),
    finish: ({ host }, visibility, input) => fetchHistory(host, visibility, input),
  }),

  defineTool({
    ...READ_CHAT,
    name: 'inspect_messages',
    when: 'Read the recorded messages of a chat with the state of each, including failed ones; oldest first.',
    input: ChatQuery,
    output: HistoryPage,
    run: localPage,
  }),

  defineTool({
    ...READ_CHAT,
    name: 'get_thread',
    when: 'Read the messages of one topic of a chat, oldest first.',
    input: ChatQuery.extend({
      topic: multilineText(128).describe('Topic; empty for the main topic'),
      limit: pageLimit(50, 100),
    }),
    output: HistoryPage,
    run: localPage,
  }),
]

interface HistoryQuery {
  readonly chat_jid: string
  readonly limit: number
  readonly before?: string | undefined
  readonly topic?: string | undefined
}

async function localPage(ctx: Context, query: HistoryQuery) {
  return { ...(await readPage(ctx.tx, await chatVisibility(ctx, query.chat_jid), query)), source: 'local-db' }
}

async function readPage(
  tx: Tx,
  { folders, showsCauses }: ChatVisibility,
  { chat_jid: jid, limit, before, topic }: HistoryQuery,
) {
  const cursor = before === undefined ? undefined : parseTimeCursor(before)
  const { seqs, oldest } = await readChatPage(tx, { jid, limit, topic, folders, before: cursor })
  const messages: z.output<typeof MessageObject>[] = (await viewMessages(tx, seqs)).map(({ error, ...message }) => ({
    ...message,
    ...(error === undefined || !showsCauses ? {} : { error }),
  }))
  return { messages, count: messages.length, oldest }
}

async function fetchHistory(host: InstanceHost, visibility: ChatVisibility, query: HistoryQuery) {
  const { chat_jid: jid } = query
  const channel = await host.channels.resolve(jid)
  const { source, history } = await fetchFromChannel(host, channel, query)
  const { messages = [], cap } = history ?? {}
  if (messages.length > 0) {
    const { engine, clock, random } = host
    const fetched = { jid, folder: visibility.owner, source: channel?.name ?? '', messages: messages.slice(0, 1000) }
    await engine.transaction((tx) => storeFetchedMessages(tx, { dialect: engine.dialect, clock, random }, fetched))
  }
  const page = await host.engine.read((tx) => readPage(tx, visibility, query))
  return { ...page, source, cap: cap ?? '' }
}

type HistorySource = 'platform' | 'platform-capped' | 'cache-only' | 'unsupported' | 'cache'

async function fetchFromChannel(
  host: InstanceHost,
  channel: Channel | undefined,
  { chat_jid: jid, limit, before }: HistoryQuery,
): Promise<{ source: HistorySource; history?: PlatformHistory }> {
  if (!channel) return { source: 'cache-only' }
  const fetch = channel.actions.fetch_history
  if (!fetch) return { source: 'unsupported' }
  try {
    const history = await withTimeout(
      fetch({ jid, limit, before: before === undefined ? undefined : parseTimeCursor(before).at }),
    )
    if (!Array.isArray(history?.messages)) return { source: 'cache' }
    return { source: history.cap ? 'platform-capped' : 'platform', history }
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unsupported') return { source: 'unsupported' }
    if (!(error instanceof Refusal || error instanceof ChannelError)) host.faults.report('delivery', error)
    return { source: 'cache' }
  }
}

async function withTimeout<T>(work: Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>()
  const error = new ChannelError('transient', 'the adapter does not respond')
  const timer = setTimeout(() => timeout.reject(error), ADAPTER_TIMEOUT_MS)
  try {
    return await Promise.race([work, timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
