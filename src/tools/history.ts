// Tools that show what was said in a chat.
import { z } from 'zod'
import { type ChatPageRequest, readChatPage } from '../core/chats/chat-page.ts'
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
  'Only what is older than this RFC 3339 time; the `oldest` of a page gives the next one, with nothing left out or twice',
)
const Chat = z.object({ chat_jid: ChatName, limit: pageLimit(100, 200), before: Before })
const needs = requireChatAccess<{ chat_jid: string }>(({ chat_jid }) => chat_jid)

/** An adapter that does not answer by then counts as down. */
const ADAPTER_MS = 10_000

const View = z.record(z.string(), z.unknown())
const Page = z.object({ messages: z.array(View), count: z.int(), oldest: z.string(), source: z.string() })

export const historyTools: readonly NamedVerb[] = [
  defineTool({
    name: 'fetch_history',
    reach: 'chat',
    tiers: { granted: 2 },
    when: 'Read what was said in a chat, from its platform where that can be asked; oldest first.',
    input: Chat,
    authorize: needs,
    isReadOnly: true,
    run: (ctx, { chat_jid }) => chatVisibility(ctx, chat_jid),
    finish: ({ host }, sight, input) => fetchHistory(host, sight, input),
  }),

  defineTool({
    name: 'inspect_messages',
    reach: 'chat',
    tiers: { granted: 2 },
    when: 'Read what svc has recorded of a chat, with what became of each message, also of those that failed; oldest first.',
    input: Chat,
    output: Page,
    authorize: needs,
    isReadOnly: true,
    run: (ctx, input) => localPage(ctx, input),
  }),

  defineTool({
    name: 'get_thread',
    reach: 'chat',
    tiers: { granted: 2 },
    when: 'Read what was said in one topic of a chat; oldest first.',
    input: Chat.extend({
      topic: multilineText(128).describe('The main topic is the empty text'),
      limit: pageLimit(50, 100),
    }),
    output: Page,
    authorize: needs,
    isReadOnly: true,
    run: (ctx, input) => localPage(ctx, input),
  }),
]

interface HistoryQuery {
  readonly chat_jid: string
  readonly limit: number
  readonly before?: string | undefined
  readonly topic?: string | undefined
}

async function localPage(ctx: Context, asked: HistoryQuery) {
  return { ...(await pageOf(ctx.tx, await chatVisibility(ctx, asked.chat_jid), asked)), source: 'local-db' }
}

async function pageOf(
  tx: Tx,
  { folders, showsCauses }: ChatVisibility,
  { chat_jid: jid, limit, before, topic }: HistoryQuery,
) {
  const ask: ChatPageRequest = {
    jid,
    limit,
    topic,
    folders,
    before: before === undefined ? undefined : parseTimeCursor(before),
  }
  const { seqs, oldest } = await readChatPage(tx, ask)
  const messages: z.output<typeof View>[] = (await viewMessages(tx, seqs)).map(({ error, ...message }) => ({
    ...message,
    ...(error === undefined || !showsCauses ? {} : { error }),
  }))
  return { messages, count: messages.length, oldest }
}

async function fetchHistory(host: InstanceHost, sight: ChatVisibility, asked: HistoryQuery) {
  const { chat_jid: jid } = asked
  const channel = await host.channels.resolve(jid)
  const { source, history } = await ask(host, channel, asked)
  const { messages = [], cap } = history ?? {}
  if (messages.length > 0) {
    const { engine, clock, random } = host
    const kept = { jid, folder: sight.owner, source: channel?.name ?? '', messages: messages.slice(0, 1000) }
    await engine.transaction((tx) => storeFetchedMessages(tx, { dialect: engine.dialect, clock, random }, kept))
  }
  const page = await host.engine.read((tx) => pageOf(tx, sight, asked))
  return { ...page, source, cap: cap ?? '' }
}

type Source = 'platform' | 'platform-capped' | 'cache-only' | 'unsupported' | 'cache'

async function ask(
  host: InstanceHost,
  channel: Channel | undefined,
  { chat_jid: jid, limit, before }: HistoryQuery,
): Promise<{ source: Source; history?: PlatformHistory }> {
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
    if (!(error instanceof Refusal || error instanceof ChannelError)) host.onBackgroundError?.(error)
    return { source: 'cache' }
  }
}

async function withTimeout<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new ChannelError('transient', 'the adapter does not answer')), ADAPTER_MS)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
