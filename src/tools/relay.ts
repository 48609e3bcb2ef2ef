// Bringing a message from where it was said to somewhere else. Both chats must be within reach: the one it goes to, by the
// rules, and the one it is taken from.
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
import { deliverMessage, recordMessage, requireSendAccess } from './chat/outgoing-message.ts'

const Feed = ChatName.describe('The feed that it goes to')
const Source = MessageId.describe('The message: its id, or <chat>|<id> for one that only its platform knows')

type Relay = 'forward' | 'quote' | 'repost'
interface RelaySource {
  readonly sourceMsgId: string
  readonly comment?: string | undefined
}

function relay<I extends z.ZodObject>(
  name: Relay,
  {
    tiers,
    when,
    reach,
    input,
    to,
  }: {
    tiers: ToolTiers
    when: string
    reach: Reach
    input: I
    to: (input: z.output<I>) => RelaySource & { readonly chat: string }
  },
) {
  return defineTool({
    name,
    when,
    reach,
    tiers,
    input,
    authorize: requireSendAccess((given: z.output<I>) => to(given).chat),
    appendsMessages: true,
    prepare: async ({ host }, given) => resolveChatTarget(host, to(given).chat, name),
    run: async (ctx, given, { jid }) => {
      const { sourceMsgId, comment } = to(given)
      const source = await sourceOf(ctx, jid, sourceMsgId)
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

/** Where the message is, for its platform: among all that we know, else in the chat that is written before it. */
async function sourceOf(
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
    mustShare(ctx, found.jid, target)
    return { sourceMsgId: requirePlatformId(found), sourceJid: found.jid }
  }
  if (chat === undefined || !ChatName.safeParse(chat).success || id === '')
    return refuse('not_found', `there is no message ${given} here`, 'write sourceMsgId as <chat>|<id>')
  if (!(await canReachChat(ctx, chat))) refuse('forbidden', `${tool}: not permitted on the message ${given}`)
  mustShare(ctx, chat, target)
  return { sourceMsgId: id, sourceJid: chat }
}

/** An id means something on its own platform alone; elsewhere it may be the id of another message. */
function mustShare({ tool }: Context, from: string, to: string): void {
  const [there, here] = [platformOf(from), platformOf(to)]
  if (there === here) return
  refuse(
    'unsupported',
    `unsupported: ${tool} from ${there || 'a folder'} to ${here}`,
    'say it in words with send(chatJid, text)',
  )
}

export const relayTools = [
  relay('forward', {
    tiers: { granted: 2 },
    when: 'Pass a message on to another chat as it is.',
    reach: 'work',
    input: z.object({ sourceMsgId: Source, targetJid: ChatName, comment: multilineText(4096).optional() }),
    to: ({ targetJid, sourceMsgId, comment }) => ({ chat: targetJid, sourceMsgId, comment }),
  }),
  relay('quote', {
    tiers: { granted: 2 },
    when: 'Publish a message of somebody on a feed together with what you say of it.',
    reach: 'chat',
    input: z.object({ chatJid: Feed, sourceMsgId: Source, comment: MessageText }),
    to: ({ chatJid, sourceMsgId, comment }) => ({ chat: chatJid, sourceMsgId, comment }),
  }),
  relay('repost', {
    tiers: { granted: 2 },
    when: 'Publish a message of somebody on a feed without a word of your own.',
    reach: 'chat',
    input: z.object({ chatJid: Feed, sourceMsgId: Source }),
    to: ({ chatJid, sourceMsgId }) => ({ chat: chatJid, sourceMsgId }),
  }),
]
