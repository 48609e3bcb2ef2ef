// How the work of folders goes: what needs attention, and the last 24 hours in numbers. Only for the dashboard and the command
// line.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { Attention, readAttention } from '../core/turns/attention.ts'
import { folderTurns } from '../core/turns/conversations.ts'
import { HourActivity, readDayActivity } from '../core/turns/day-activity.ts'
import { listOwnFolders } from '../permissions/own-folders.ts'
import { operatorWho } from '../registry/authorization.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

export const folderTurnsResource = defineResource({
  of: folderTurns,
  title: 'FolderTurns',
  servedBy: [],
  verbs: () => ({
    /** Of the folders that the person administers; for operators, of the instance. */
    attention: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: Attention,
      authorize: operatorWho(() => true),
      run: async (ctx) => {
        const scope = { folders: await listOwnFolders(ctx), person: principalOf(ctx.caller) }
        return readAttention(ctx.tx, scope, ctx.clock.now())
      },
    }),

    day: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ hours: z.array(HourActivity) }),
      authorize: operatorWho(() => true),
      run: async (ctx) => ({ hours: await readDayActivity(ctx.tx, await listOwnFolders(ctx), ctx.clock.now()) }),
    }),
  }),
})
