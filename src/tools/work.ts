// The work file: what the agent is at, kept between turns and shown in each.
import { z } from 'zod'
import type { Layout } from '../core/layout.ts'
import { content, text } from '../core/values.ts'
import { readWork, WORK_MAX_BYTES, writeWork } from '../core/work-file.ts'
import { refuse } from '../lib/refusal.ts'
import type { Asking, Context } from '../registry/context.ts'
import { mustHaveTool, ownFolder } from '../registry/needs.ts'
import { hotTool } from '../registry/tool.ts'

const Content = content(
  text((value) => {
    if (Buffer.byteLength(value) > WORK_MAX_BYTES) return `must be at most ${WORK_MAX_BYTES} bytes`
    return value.includes('\u0000') ? 'must not hold a NUL character' : undefined
  }),
)

export const workTools = [
  hotTool({
    name: 'get_work',
    reach: 'work',
    when: 'Read your work file, /home/node/work.md: what you are at.',
    reads: true,
    input: z.object({}),
    needs: ownWork,
    run: async (ctx) => ownFolder(ctx),
    finish: async (asking, folder) => readWork(filesOf(asking), folder),
  }),

  hotTool({
    name: 'set_work',
    reach: 'work',
    when: 'Replace your work file, /home/node/work.md. Every turn of yours is shown it.',
    input: z.object({ content: Content.describe('The whole file') }),
    needs: ownWork,
    audited: ({ content }) => ({ bytes: Buffer.byteLength(content) }),
    run: async (ctx) => ownFolder(ctx),
    finish: async (asking, folder, { content }) => writeWork(filesOf(asking), folder, content),
  }),
]

async function ownWork(ctx: Context): Promise<void> {
  await mustHaveTool(ctx, await ownFolder(ctx))
}

function filesOf({ host }: Asking): Layout {
  return host.layout ?? refuse('unavailable', 'this process has no files')
}
