// The work file: what the agent is at, kept between turns and shown in each.
import { z } from 'zod'
import { readWork, WORK_MAX_BYTES, writeWork } from '../core/groups/work-file.ts'
import type { Layout } from '../core/layout.ts'
import { markContent, text } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import type { Context, RequestContext } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'

const Content = markContent(
  text((value) => {
    if (Buffer.byteLength(value) > WORK_MAX_BYTES) return `must be at most ${WORK_MAX_BYTES} bytes`
    return value.includes('\u0000') ? 'must not hold a NUL character' : undefined
  }),
)

export const workFileTools = [
  defineTool({
    name: 'get_work',
    reach: 'work',
    tiers: { granted: 2 },
    when: 'Read your work file, /home/node/work.md: what you are at.',
    isReadOnly: true,
    input: z.object({}),
    authorize: ownWork,
    run: async (ctx) => actingFolder(ctx),
    finish: async (asking, folder) => readWork(filesOf(asking), folder),
  }),

  defineTool({
    name: 'set_work',
    reach: 'work',
    tiers: { max: 2, granted: 2 },
    when: 'Replace your work file, /home/node/work.md. Every turn of yours is shown it.',
    input: z.object({ content: Content.describe('The whole file') }),
    authorize: ownWork,
    auditInput: ({ content }) => ({ bytes: Buffer.byteLength(content) }),
    run: async (ctx) => actingFolder(ctx),
    finish: async (asking, folder, { content }) => writeWork(filesOf(asking), folder, content),
  }),
]

async function ownWork(ctx: Context): Promise<void> {
  await mustHaveTool(ctx, await actingFolder(ctx))
}

function filesOf({ host }: RequestContext): Layout {
  return host.layout ?? refuse('unavailable', 'this process has no files')
}
