// Tools for the work file: the agent's own notes on its current work, shown in the prompt of every turn.
import { z } from 'zod'
import { readWork, WORK_MAX_BYTES, writeWork } from '../core/groups/work-file.ts'
import type { Layout } from '../core/layout.ts'
import { checkedText, markContent } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, requireToolOnOwnFolder } from '../registry/authorization.ts'
import type { RequestContext } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'

const Content = markContent(
  checkedText((value) => {
    if (Buffer.byteLength(value) > WORK_MAX_BYTES) return `must be at most ${WORK_MAX_BYTES} bytes`
    return value.includes('\u0000') ? 'must not contain a NUL character' : undefined
  }),
)

export const workFileTools = [
  defineTool({
    name: 'get_work',
    reach: 'work',
    tiers: { granted: 2 },
    when: 'Read your work file, /home/node/work.md: your notes on your current work.',
    activity: 'Reading notes',
    isReadOnly: true,
    input: z.object({}),
    authorize: requireToolOnOwnFolder,
    run: async (ctx) => actingFolder(ctx),
    finish: async (request, folder) => readWork(requireLayout(request), folder),
  }),

  defineTool({
    name: 'set_work',
    reach: 'work',
    tiers: { max: 2, granted: 2 },
    when: 'Replace your work file, /home/node/work.md. Each of your turns sees it.',
    activity: 'Writing notes',
    input: z.object({ content: Content.describe('The whole file') }),
    authorize: requireToolOnOwnFolder,
    auditInput: ({ content }) => ({ bytes: Buffer.byteLength(content) }),
    run: async (ctx) => actingFolder(ctx),
    finish: async (request, folder, { content }) => writeWork(requireLayout(request), folder, content),
  }),
]

function requireLayout({ host }: RequestContext): Layout {
  return host.layout ?? refuse('unavailable', 'this process has no files')
}
