// Bringing a message from where it was said to somewhere else. Both chats must be within reach: the one it goes to, by the
// rules, and the one it is taken from.
import { z } from 'zod'
import { platformOf } from '../core/channel.ts'
import { locate, MessageId, mustBeThere } from '../core/message-ids.ts'
import type { Reach } from '../core/reach.ts'
import { ChatName, prose, Words } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { placeFor } from '../registry/acting.ts'
import { canReachChat } from '../registry/chat-needs.ts'
import type { Context } from '../registry/context.ts'
import { say, sayOut, speaksIn } from '../registry/saying.ts'
import { hotTool } from '../registry/tool.ts'

const Feed = ChatName.describe('The feed that it goes to')
const Source = MessageId.describe('The message: its id, or <chat>|<id> for one that only its platform knows')

type Relay = 'forward' | 'quote' | 'repost'
interface Relayed {
  readonly sourceMsgId: string
  readonly comment?: string | undefined
}

function relay<I extends z.ZodObject>(
  name: Relay,
  {
    when,
    reach,
    input,
    to,
  }: { when: string; reach: Reach; input: I; to: (input: z.output<I>) => Relayed & { readonly chat: string } },
) {
  return hotTool({
    name,
    when,
    reach,
    input,
    needs: speaksIn((given: z.output<I>) => to(given).chat),
    says: true,
    prepare: async ({ host }, given) => placeFor(host, to(given).chat, name),
    run: async (ctx, given, { jid }) => {
      const { sourceMsgId, comment } = to(given)
      const source = await sourceOf(ctx, jid, sourceMsgId)
      return say(ctx, {
        jid,
        content: comment ?? `[${name} of ${sourceMsgId}]`,
        action: name,
        isThreaded: false,
        payload: { ...source, comment },
      })
    },
    finish: async ({ host }, recorded) => ({ ok: true, id: await sayOut(host, recorded) }),
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
    const found = jid === undefined ? undefined : await locate(tx, id, jid)
    if (!found) continue
    if (!(await canReachChat(ctx, found.jid))) refuse('forbidden', `${tool}: not permitted on the message ${given}`)
    mustShare(ctx, found.jid, target)
    return { sourceMsgId: mustBeThere(found), sourceJid: found.jid }
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
    when: 'Pass a message on to another chat as it is.',
    reach: 'work',
    input: z.object({ sourceMsgId: Source, targetJid: ChatName, comment: prose(4096).optional() }),
    to: ({ targetJid, sourceMsgId, comment }) => ({ chat: targetJid, sourceMsgId, comment }),
  }),
  relay('quote', {
    when: 'Publish a message of somebody on a feed together with what you say of it.',
    reach: 'chat',
    input: z.object({ chatJid: Feed, sourceMsgId: Source, comment: Words }),
    to: ({ chatJid, sourceMsgId, comment }) => ({ chat: chatJid, sourceMsgId, comment }),
  }),
  relay('repost', {
    when: 'Publish a message of somebody on a feed without a word of your own.',
    reach: 'chat',
    input: z.object({ chatJid: Feed, sourceMsgId: Source }),
    to: ({ chatJid, sourceMsgId }) => ({ chat: chatJid, sourceMsgId }),
  }),
]
