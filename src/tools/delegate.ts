// Questions between agents: to a child (delegate) or to the parent (escalate). The server counts the depth itself. See
// docs/decisions.md#delegation-depth.
import { z } from 'zod'
import { mayReachFolder, parentFolderOf, ROOT_FOLDER } from '../core/access/tiers.ts'
import { recordInbound } from '../core/messages/inbound.ts'
import { escapePromptText } from '../core/prompt/prompt.ts'
import { findLastReplyId } from '../core/routing/engagements.ts'
import { topicIn } from '../core/turns/turns.ts'
import { ChatName, Folder, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustHaveReaders, mustReachChat } from '../permissions/chat-access.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { mustFindGroup } from '../registry/crud.ts'
import { defineTool, signalCommit } from '../registry/tool.ts'

const DEPTH_MAX = 1

const Question = z.object({
  prompt: multilineText(100_000)
    .refine((value) => value.trim() !== '', 'must not be empty')
    .describe('The question or task, with everything needed to answer it'),
  chatJid: ChatName.describe('The chat that gets the answer'),
  depth: z.int().min(0).default(0).describe('How often the question was passed on already; only 0 is allowed'),
})
type Question = z.output<typeof Question>

const queued = z.literal(true)

export const delegateTools = [
  defineTool({
    name: 'delegate_group',
    reach: 'work',
    tiers: { max: 1, granted: 1 },
    when: 'Ask a group below yours to answer a question. Its answer goes directly to the chat that you name.',
    activity: 'Asking for help',
    key: ['group'],
    appendsMessages: true,
    input: z.object({ group: Folder.describe('The child folder'), ...Question.shape }),
    output: z.object({ queued }),
    authorize: async (ctx, { group, chatJid }) => {
      const own = await actingFolder(ctx)
      if (group === own || !mayReachFolder(own, group))
        refuse('forbidden', `${ctx.tool}: not permitted: ${group} is not below ${own}`)
      await mustHaveTool(ctx, group)
      await mustReachAsker(ctx, chatJid)
    },
    run: async (ctx, { group, ...question }) => {
      await ask(ctx, 'delegate', group, question)
      return { queued: true as const }
    },
    finish: signalCommit,
  }),

  defineTool({
    name: 'escalate_group',
    reach: 'work',
    tiers: { max: 1, granted: 1 },
    when: 'Ask the group above yours to answer what you cannot. Its answer goes directly to the chat that you name.',
    activity: 'Asking for help',
    key: ['parent'],
    appendsMessages: true,
    input: Question,
    output: z.object({ queued, parent: Folder }),
    authorize: async (ctx, { chatJid }) => mustReachAsker(ctx, chatJid),
    run: async (ctx, question) => {
      const own = await actingFolder(ctx)
      // Every folder counts as below the root. See docs/decisions.md#the-root-folder.
      const parent =
        own === ROOT_FOLDER ? refuse('invalid', `${own} has no parent group`) : (parentFolderOf(own) ?? ROOT_FOLDER)
      const origin = await originLine(ctx, own, question.chatJid)
      await ask(ctx, 'escalate', parent, { ...question, prompt: `${origin}\n${question.prompt}` })
      return { queued: true as const, parent }
    },
    finish: signalCommit,
  }),
]

async function mustReachAsker(ctx: Context, jid: string): Promise<void> {
  await mustReachChat(ctx, jid)
  await mustHaveReaders(ctx, jid)
}

async function ask(ctx: Context, verb: 'delegate' | 'escalate', folder: string, question: Question): Promise<void> {
  const turn = await ctx.turn()
  const depth = Math.max(question.depth, turn?.depth ?? 0) + 1
  if (depth > DEPTH_MAX) refuse('invalid', `delegation depth ${depth} exceeds limit ${DEPTH_MAX}`)
  await mustFindGroup(ctx, folder)
  await recordInbound(ctx.tx, ctx, {
    jid: folder,
    target_folder: folder,
    sender: verb,
    content: question.prompt,
    reach: ctx.reach,
    envelope: {
      verb,
      depth,
      from_turn: turn?.id,
      return_jid: question.chatJid,
      return_topic: topicIn(turn, question.chatJid) || undefined,
      as_folder: folder,
    },
  })
}

async function originLine(ctx: Context, folder: string, jid: string): Promise<string> {
  const replyTo = (await findLastReplyId(ctx.tx, jid, topicIn(await ctx.turn(), jid))) ?? ''
  const [from, chat, last] = [folder, jid, replyTo].map(escapePromptText)
  return `<escalation_origin folder="${from}" jid="${chat}" reply_to="${last}"/>`
}
