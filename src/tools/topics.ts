// Tools that fork a topic or reset the session of a folder.
import { z } from 'zod'
import { forceNewSession } from '../core/turns/conversations.ts'
import { forkTopic } from '../core/turns/topic-forks.ts'
import { checkedText, Folder, line } from '../core/values.ts'
import { actingFolder, mustHaveTool, requireToolOnOwnFolder } from '../registry/authorization.ts'
import { mustFindGroup } from '../registry/crud.ts'
import { defineTool } from '../registry/tool.ts'

const TopicName = line(128)
const TopicOrMain = checkedText((value) =>
  value === '' ? undefined : TopicName.safeParse(value).error?.issues[0]?.message,
)

export const topicTools = [
  defineTool({
    name: 'fork_topic',
    reach: 'work',
    tiers: { granted: 2 },
    when: 'Start a new topic that knows the conversation of another topic up to now and continues separately.',
    key: ['child'],
    input: z.object({
      parent: TopicOrMain.describe(
        'The topic to start from; empty for the main topic. If it has no session, the new topic starts fresh',
      ),
      child: TopicName.describe('The new topic'),
      force: z.boolean().default(false).describe('Replace the session of the topic if it exists already'),
    }),
    output: z.object({ folder: Folder, parent_topic: z.string(), child_topic: z.string() }),
    authorize: requireToolOnOwnFolder,
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
    when: 'Forget the conversation: the next message to the folder starts a fresh session, in all its topics.',
    key: ['groupFolder'],
    input: z.object({ groupFolder: Folder.describe('Your folder, or one below it') }),
    authorize: async (ctx, { groupFolder }) => mustHaveTool(ctx, groupFolder),
    run: async (ctx, { groupFolder: folder }) => {
      await mustFindGroup(ctx, folder)
      await forceNewSession(ctx.tx, folder, undefined, ctx.now)
    },
  }),
]
