// Tools that show what was said in a chat.
import { z } from 'zod'
import { type Channel, ChannelFault, type PlatformHistory } from '../core/channel.ts'
import { type PageAsk, pageOfChat } from '../core/chat-page.ts'
import { keepFetched } from '../core/fetched.ts'
import { viewMessages } from '../core/message-view.ts'
import { Moment, readMoment } from '../core/moments.ts'
import { ChatName, limit, prose } from '../core/values.ts'
import { Refusal } from '../lib/refusal.ts'
import { grantedOnChat } from '../registry/chat-needs.ts'
import { type ChatSight, sightOfChat } from '../registry/chat-sight.ts'
import type { Context, Host } from '../registry/context.ts'
import type { NamedVerb } from '../registry/resource.ts'
import { hotTool } from '../registry/tool.ts'
import type { Tx } from '../store/engine.ts'

const Before = Moment.optional().describe(
  'Only what is older than this RFC 3339 time; the `oldest` of a page gives the next one, with nothing left out or twice',
)
const Chat = z.object({ chat_jid: ChatName, limit: limit(100, 200), before: Before })
const needs = grantedOnChat<{ chat_jid: string }>(({ chat_jid }) => chat_jid)

/** An adapter that does not answer by then counts as down. */
const ADAPTER_MS = 10_000

const View = z.record(z.string(), z.unknown())
const Page = z.object({ messages: z.array(View), count: z.int(), oldest: z.string(), source: z.string() })

export const historyTools: readonly NamedVerb[] = [
  hotTool({
    name: 'fetch_history',
    reach: 'chat',
    when: 'Read what was said in a chat, from its platform where that can be asked; oldest first.',
    input: Chat,
    needs,
    reads: true,
    run: (ctx, { chat_jid }) => sightOfChat(ctx, chat_jid),
    finish: ({ host }, sight, input) => fetchHistory(host, sight, input),
  }),

  hotTool({
    name: 'inspect_messages',
    reach: 'chat',
    when: 'Read what svc has recorded of a chat, with what became of each message, also of those that failed; oldest first.',
    input: Chat,
    output: Page,
    needs,
    reads: true,
    run: (ctx, input) => localPage(ctx, input),
  }),

  hotTool({
    name: 'get_thread',
    reach: 'chat',
    when: 'Read what was said in one topic of a chat; oldest first.',
    input: Chat.extend({
      topic: prose(128).describe('The main topic is the empty text'),
      limit: limit(50, 100),
    }),
    output: Page,
    needs,
    reads: true,
    run: (ctx, input) => localPage(ctx, input),
  }),
]

interface Asked {
  readonly chat_jid: string
  readonly limit: number
  readonly before?: string | undefined
  readonly topic?: string | undefined
}

async function localPage(ctx: Context, asked: Asked) {
  return { ...(await pageOf(ctx.tx, await sightOfChat(ctx, asked.chat_jid), asked)), source: 'local-db' }
}

async function pageOf(tx: Tx, { folders, showsCauses }: ChatSight, { chat_jid: jid, limit, before, topic }: Asked) {
  const ask: PageAsk = { jid, limit, topic, folders, before: before === undefined ? undefined : readMoment(before) }
  const { seqs, oldest } = await pageOfChat(tx, ask)
  const messages: z.output<typeof View>[] = (await viewMessages(tx, seqs)).map(({ error, ...message }) => ({
    ...message,
    ...(error === undefined || !showsCauses ? {} : { error }),
  }))
  return { messages, count: messages.length, oldest }
}

async function fetchHistory(host: Host, sight: ChatSight, asked: Asked) {
  const { chat_jid: jid } = asked
  const channel = await host.channels.of(jid)
  const { source, history } = await ask(host, channel, asked)
  const { messages = [], cap } = history ?? {}
  if (messages.length > 0) {
    const { engine, clock, random } = host
    const kept = { jid, folder: sight.owner, source: channel?.name ?? '', messages: messages.slice(0, 1000) }
    await engine.transaction((tx) => keepFetched(tx, { dialect: engine.dialect, clock, random }, kept))
  }
  const page = await host.engine.read((tx) => pageOf(tx, sight, asked))
  return { ...page, source, cap: cap ?? '' }
}

type Source = 'platform' | 'platform-capped' | 'cache-only' | 'unsupported' | 'cache'

async function ask(
  host: Host,
  channel: Channel | undefined,
  { chat_jid: jid, limit, before }: Asked,
): Promise<{ source: Source; history?: PlatformHistory }> {
  if (!channel) return { source: 'cache-only' }
  const fetch = channel.actions.fetch_history
  if (!fetch) return { source: 'unsupported' }
  try {
    const history = await soon(fetch({ jid, limit, before: before === undefined ? undefined : readMoment(before).at }))
    if (!Array.isArray(history?.messages)) return { source: 'cache' }
    return { source: history.cap ? 'platform-capped' : 'platform', history }
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unsupported') return { source: 'unsupported' }
    if (!(error instanceof Refusal || error instanceof ChannelFault)) host.onStray?.(error)
    return { source: 'cache' }
  }
}

async function soon<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new ChannelFault('transient', 'the adapter does not answer')), ADAPTER_MS)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
