// Tools for the assistant pane beside a chat, on platforms that have one.
import { z } from 'zod'
import { ChatName, line, markContent, multilineText } from '../core/values.ts'
import { defineChatAction } from './chat/channel-action.ts'

const PROMPTS_MAX = 16
const TrimmedText = z.string().trim().min(1, 'must not be empty')
const Title = TrimmedText.pipe(markContent(line(256)))
const PaneChat = ChatName.describe('The direct chat of the pane')

const Prompts = z
  .array(z.strictObject({ title: Title, message: TrimmedText.pipe(multilineText(4096)) }))
  .min(1, 'must not be empty')
  .max(PROMPTS_MAX, `must be ${PROMPTS_MAX} at most`)
  .describe('Prompts that people can pick with one click; three or four are visible')

export const paneTools = [
  defineChatAction('pane_set_prompts', {
    tiers: { granted: 1 },
    when: 'Offer prompts that people can pick in the assistant pane of a direct chat.',
    input: z.object({ chatJid: PaneChat, prompts: Prompts }),
    perform: (actions, jid, { prompts }) => actions.pane_set_prompts?.({ jid, prompts }),
  }),
  defineChatAction('pane_set_title', {
    tiers: { granted: 1 },
    when: 'Set the title of the conversation in the assistant pane of a direct chat.',
    input: z.object({ chatJid: PaneChat, title: Title.describe('At most 256 characters') }),
    perform: (actions, jid, { title }) => actions.pane_set_title?.({ jid, title }),
  }),
]
