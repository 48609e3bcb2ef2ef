// The assistant's pane beside a chat, where the platform has one.
import { z } from 'zod'
import { ChatName, line, markContent, multilineText } from '../core/values.ts'
import { defineTool } from '../registry/tool.ts'
import { performAction, resolveChatTarget } from './chat/channel-action.ts'
import { requireSendAccess } from './chat/outgoing-message.ts'

const PROMPTS_MAX = 16
const Trimmed = z.string().trim().min(1, 'must not be empty')
const Title = Trimmed.pipe(markContent(line(256)))

const Prompts = z
  .array(z.strictObject({ title: Title, message: Trimmed.pipe(multilineText(4096)) }))
  .min(1, 'must not be empty')
  .max(PROMPTS_MAX, `must be ${PROMPTS_MAX} at most`)
  .describe('What people can pick with one click; three or four of them are seen')

const setPrompts = defineTool({
  name: 'pane_set_prompts',
  reach: 'chat',
  tiers: { granted: 1 },
  when: 'Offer questions in the assistant pane of a direct chat, for people to pick.',
  input: z.object({ chatJid: ChatName.describe('The direct chat of the pane'), prompts: Prompts }),
  authorize: requireSendAccess(({ chatJid }: { chatJid: string }) => chatJid),
  prepare: ({ host }, { chatJid }) => resolveChatTarget(host, chatJid, 'pane_set_prompts'),
  run: async (_ctx, _given, place) => place,
  finish: (_asking, place, { prompts }) =>
    performAction(place, 'pane_set_prompts', (actions) => actions.pane_set_prompts?.({ jid: place.jid, prompts })),
})

const setTitle = defineTool({
  name: 'pane_set_title',
  reach: 'chat',
  tiers: { granted: 1 },
  when: 'Name the conversation in the assistant pane of a direct chat.',
  input: z.object({
    chatJid: ChatName.describe('The direct chat of the pane'),
    title: Title.describe('At most 256 characters'),
  }),
  authorize: requireSendAccess(({ chatJid }: { chatJid: string }) => chatJid),
  prepare: ({ host }, { chatJid }) => resolveChatTarget(host, chatJid, 'pane_set_title'),
  run: async (_ctx, _given, place) => place,
  finish: (_asking, place, { title }) =>
    performAction(place, 'pane_set_title', (actions) => actions.pane_set_title?.({ jid: place.jid, title })),
})

export const paneTools = [setPrompts, setTitle]
