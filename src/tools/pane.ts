// The assistant's pane beside a chat, where the platform has one.
import { z } from 'zod'
import { ChatName, content, line, prose } from '../core/values.ts'
import { act, placeFor } from '../registry/acting.ts'
import { speaksIn } from '../registry/saying.ts'
import { hotTool } from '../registry/tool.ts'

const PROMPTS_MAX = 16
const Trimmed = z.string().trim().min(1, 'must not be empty')
const Title = Trimmed.pipe(content(line(256)))

const Prompts = z
  .array(z.strictObject({ title: Title, message: Trimmed.pipe(prose(4096)) }))
  .min(1, 'must not be empty')
  .max(PROMPTS_MAX, `must be ${PROMPTS_MAX} at most`)
  .describe('What people can pick with one click; three or four of them are seen')

const setPrompts = hotTool({
  name: 'pane_set_prompts',
  reach: 'chat',
  when: 'Offer questions in the assistant pane of a direct chat, for people to pick.',
  input: z.object({ chatJid: ChatName.describe('The direct chat of the pane'), prompts: Prompts }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  prepare: ({ host }, { chatJid }) => placeFor(host, chatJid, 'pane_set_prompts'),
  run: async (_ctx, _given, place) => place,
  finish: (_asking, place, { prompts }) =>
    act(place, 'pane_set_prompts', (actions) => actions.pane_set_prompts?.({ jid: place.jid, prompts })),
})

const setTitle = hotTool({
  name: 'pane_set_title',
  reach: 'chat',
  when: 'Name the conversation in the assistant pane of a direct chat.',
  input: z.object({
    chatJid: ChatName.describe('The direct chat of the pane'),
    title: Title.describe('At most 256 characters'),
  }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  prepare: ({ host }, { chatJid }) => placeFor(host, chatJid, 'pane_set_title'),
  run: async (_ctx, _given, place) => place,
  finish: (_asking, place, { title }) =>
    act(place, 'pane_set_title', (actions) => actions.pane_set_title?.({ jid: place.jid, title })),
})

export const paneTools = [setPrompts, setTitle]
