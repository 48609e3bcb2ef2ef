// Tools that forward, quote or repost a message. Both the source chat and the target chat must be within reach.
import { z } from 'zod'
import type { Reach } from '../core/access/reach.ts'
import type { ToolTiers } from '../core/access/tiers.ts'
import { platformOf } from '../core/delivery/channel.ts'
import { findMessage, MessageId, requirePlatformId } from '../core/messages/message-ids.ts'
import { ChatName, MessageText, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { canReachChat } from '../permissions/chat-access.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import { resolveChatTarget } from './chat/channel-action.ts'
import { deliverMessage, recordMessage, requireSendAccessTo } from './chat/outgoing-message.ts'

const Feed = ChatName.describe('The destination feed')
const SourceId = MessageId.describe('The message: its id, or <chat>|<id> for one that only its platform knows')

interface RelayRequest {
  readonly chat: string
  readonly sourceMsgId: string
  readonly comment?: string | undefined
}

interface Relay<I extends z.ZodObject> {
  readonly tiers: ToolTiers
  readonly when: string
  readonly reach: Reach
  readonly input: I
  toRequest(input: z.output<I>): RelayRequest
}

function defineRelay<I extends z.ZodObject>(
  name: 'forward' | 'quote' | 'repost',
  { tiers, when, reach, input, toRequest }: Relay<I>,
) {
  return defineTool({
    name,
    when,
    reach,
    tiers,
    input,
    authorize: requireSendAccessTo((given: z.output<I>) => toRequest(given).chat),
    appendsMessages: true,
    prepare: async ({ host }, given) => resolveChatTarget(host, toRequest(given).chat, name),
    run: async (ctx, given, { jid }) => {
      const { sourceMsgId, comment } = toRequest(given)
      const source = await findSource(ctx, jid, sourceMsgId)
      return recordMessage(ctx, {
        jid,
        content: comment ?? `[${name} of ${sourceMsgId}]`,
        action: name,
        isThreaded: false,
        payload: { ...source, comment },
      })
    },
    finish: async ({ host }, recorded) => ({ ok: true, id: await deliverMessage(host, recorded) }),
  })
}

/** Finds the message in the store, or takes the chat named before the id. */
async function findSource(
  ctx: Context,
  target: string,
  given: string,
): Promise<{ readonly sourceMsgId: string; readonly sourceJid: string }> {
  const { tx, tool } = ctx
  const bar = given.lastIndexOf('|')
  const [chat, id] = bar < 0 ? [undefined, given] : [given.slice(0, bar), given.slice(bar + 1)]
  const chats = chat === undefined ? [(await ctx.turn())?.jid, target] : [chat]
  for (const jid of chats) {
    const found = jid === undefined ? undefined : await findMessage(tx, id, jid)
    if (!found) continue
    if (!(await canReachChat(ctx, found.jid))) refuse('forbidden', `${tool}: not permitted on the message ${given}`)
    mustBeSamePlatform(ctx, found.jid, target)
    return { sourceMsgId: requirePlatformId(found), sourceJid: found.jid }
  }
  if (chat === undefined || !ChatName.safeParse(chat).success || id === '')
    return refuse('not_found', `there is no message ${given}`, 'write sourceMsgId as <chat>|<id>')
  if (!(await canReachChat(ctx, chat))) refuse('forbidden', `${tool}: not permitted on the message ${given}`)
  mustBeSamePlatform(ctx, chat, target)
  return { sourceMsgId: id, sourceJid: chat }
}

/** On another platform, the id may belong to a different message. */
function mustBeSamePlatform({ tool }: Context, source: string, target: string): void {
  const [from, to] = [platformOf(source), platformOf(target)]
  if (from === to) return
  refuse(
    'unsupported',
    `unsupported: ${tool} from ${from || 'a folder'} to ${to}`,
    'say it in words with send(chatJid, text)',
  )
}

export const relayTools = [
  defineRelay('forward', {
    tiers: { granted: 2 },
    when: 'Forward a message unchanged to another chat.',
    reach: 'work',
    input: z.object({ sourceMsgId: SourceId, targetJid: ChatName, comment: multilineText(4096).optional() }),
    toRequest: ({ targetJid, sourceMsgId, comment }) => ({ chat: targetJid, sourceMsgId, comment }),
  }),
  defineRelay('quote', {
    tiers: { granted: 2 },
    when: "Publish someone's message on a feed with your comment.",
    reach: 'chat',
    input: z.object({ chatJid: Feed, sourceMsgId: SourceId, comment: MessageText }),
    toRequest: ({ chatJid, sourceMsgId, comment }) => ({ chat: chatJid, sourceMsgId, comment }),
  }),
  defineRelay('repost', {
    tiers: { granted: 2 },
    when: "Publish someone's message on a feed without a comment.",
    reach: 'chat',
    input: z.object({ chatJid: Feed, sourceMsgId: SourceId }),
    toRequest: ({ chatJid, sourceMsgId }) => ({ chat: chatJid, sourceMsgId }),
  }),
]
