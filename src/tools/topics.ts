// Topics and sessions of a folder: one topic starts from another, and a session starts afresh.
import { z } from 'zod'
import { groups } from '../core/groups/groups.ts'
import { forceNewSession } from '../core/turns/conversations.ts'
import { forkTopic } from '../core/turns/topic-forks.ts'
import { Folder, line, text } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import { defineTool } from '../registry/tool.ts'

const Named = line(128)
const TopicOrMain = text((value) => (value === '' ? undefined : Named.safeParse(value).error?.issues[0]?.message))

export const topicTools = [
  defineTool({
    name: 'fork_topic',
    reach: 'work',
    tiers: { granted: 2 },
    when: 'Start a new topic that knows all that was said in another up to now, and goes its own way from there.',
    key: ['child'],
    input: z.object({
      parent: TopicOrMain.describe(
        'The topic to start from; empty is the main one. Without a session, the new one is fresh',
      ),
      child: Named.describe('The new topic'),
      force: z.boolean().default(false).describe('Also where the topic is there already: its session is replaced'),
    }),
    output: z.object({ folder: Folder, parent_topic: z.string(), child_topic: z.string() }),
    authorize: async (ctx) => mustHaveTool(ctx, await actingFolder(ctx)),
    run: async (ctx, { parent, child, force }) => {
      const folder = await actingFolder(ctx)
      await forkTopic(ctx.tx, { folder, parent, child, isForced: force }, ctx.now)
      return { folder, parent_topic: parent, child_topic: child }
    },
  }),

  defineTool({
    name: 'reset_session',
    reach: 'work',
    tiers: { granted: 1 },
    when: 'Forget what was said: the next message to the folder starts a fresh session, in all its topics.',
    key: ['groupFolder'],
    input: z.object({ groupFolder: Folder.describe('Your folder, or one below it') }),
    authorize: async (ctx, { groupFolder }) => mustHaveTool(ctx, groupFolder),
    run: async (ctx, { groupFolder: folder }) => {
      if (!(await groups.find(ctx.tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
      await forceNewSession(ctx.tx, folder, undefined, ctx.now)
    },
  }),
]
