// Questions between agents: down to a child, up to the parent. The answer goes to the chat that the question came from, and
// how often a question was handed on is counted here, whatever the caller says (decision A7).
import { z } from 'zod'
import { mayReachFolder, parentFolderOf, ROOT_FOLDER } from '../core/access/tiers.ts'
import { groups } from '../core/groups/groups.ts'
import { recordInbound } from '../core/messages/inbound.ts'
import { lastReplyId } from '../core/routing/engagements.ts'
import { ChatName, Folder, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustReachChat } from '../permissions/chat-access.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'

const DEPTH_MAX = 1

const Question = z.object({
  prompt: multilineText(100_000)
    .refine((value) => value.trim() !== '', 'must not be empty')
    .describe('The question or task, with all that is needed to answer it'),
  chatJid: ChatName.describe('The chat that the answer goes to'),
  depth: z.int().min(0).default(0).describe('How often the question was handed on before; only 0 is allowed'),
})
type Question = z.output<typeof Question>

const queued = z.literal(true)

export const delegateTools = [
  defineTool({
    name: 'delegate_group',
    reach: 'work',
    tiers: { max: 1, granted: 1 },
    when: 'Let a group below you answer a question. Its answer goes straight to the chat that you name.',
    key: ['group'],
    appendsMessages: true,
    input: z.object({ group: Folder.describe('The child folder'), ...Question.shape }),
    output: z.object({ queued }),
    authorize: async (ctx, { group, chatJid }) => {
      const own = await actingFolder(ctx)
      if (group === own || !mayReachFolder(own, group))
        refuse('forbidden', `${ctx.tool}: not permitted: ${group} does not lie below ${own}`)
      await mustHaveTool(ctx, group)
      await mustReachChat(ctx, chatJid)
    },
    run: async (ctx, { group, ...question }) => {
      await ask(ctx, 'delegate', group, question)
      return { queued: true as const }
    },
    finish: async ({ host }, reply) => {
      host.signals.emit()
      return reply
    },
  }),

  defineTool({
    name: 'escalate_group',
    reach: 'work',
    tiers: { max: 1, granted: 1 },
    when: 'Let the group above you answer what you cannot. Its answer goes straight to the chat that you name.',
    key: ['parent'],
    appendsMessages: true,
    input: Question,
    output: z.object({ queued, parent: Folder }),
    authorize: async (ctx, { chatJid }) => mustReachChat(ctx, chatJid),
    run: async (ctx, question) => {
      const own = await actingFolder(ctx)
      // For reach every folder descends from the root (decision A9).
      const parent =
        own === ROOT_FOLDER ? refuse('invalid', `${own} has no parent group`) : (parentFolderOf(own) ?? ROOT_FOLDER)
      const origin = await originLine(ctx, own, question.chatJid)
      await ask(ctx, 'escalate', parent, { ...question, prompt: `${origin}\n${question.prompt}` })
      return { queued: true as const, parent }
    },
    finish: async ({ host }, reply) => {
      host.signals.emit()
      return reply
    },
  }),
]

async function ask(ctx: Context, verb: 'delegate' | 'escalate', folder: string, asked: Question): Promise<void> {
  const turn = await ctx.turn()
  const depth = Math.max(asked.depth, turn?.depth ?? 0) + 1
  if (depth > DEPTH_MAX) refuse('invalid', `delegation depth ${depth} exceeds limit ${DEPTH_MAX}`)
  if (!(await groups.find(ctx.tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
  await recordInbound(ctx.tx, ctx, {
    jid: folder,
    target_folder: folder,
    sender: verb,
    content: asked.prompt,
    reach: ctx.reach,
    envelope: {
      verb,
      depth,
      from_turn: turn?.id,
      return_jid: asked.chatJid,
      return_topic: (await chatTopic(ctx, asked.chatJid)) || undefined,
      as_folder: folder,
    },
  })
}

/** The topic that the turn answers in, where the chat is its own. */
async function chatTopic(ctx: Context, jid: string): Promise<string> {
  const turn = await ctx.turn()
  return turn?.jid === jid ? turn.chat_topic : ''
}

async function originLine(ctx: Context, folder: string, jid: string): Promise<string> {
  const replyTo = (await lastReplyId(ctx.tx, jid, await chatTopic(ctx, jid))) ?? ''
  const [from, chat, last] = [folder, jid, replyTo].map(escaped)
  return `<escalation_origin folder="${from}" jid="${chat}" reply_to="${last}"/>`
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ENTITIES[sign] ?? sign)
}
