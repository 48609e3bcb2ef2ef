// The state of incoming messages. Only for the command line and the dashboard; agents and people read the history of their chats.
import { z } from 'zod'
import { groups } from '../core/groups/groups.ts'
import { InboxState, inbox } from '../core/messages/inbox.ts'
import {
  listIdsWithPrefix,
  listMessageStates,
  MessageState,
  readMessageDetails,
  readRoutedSeq,
} from '../core/messages/message-states.ts'
import { Folder, line, pageLimit } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { INSTANCE_SCOPE, operatorOn, requireOperator } from '../registry/authorization.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import type { Tx } from '../store/engine.ts'

const SEQS_MAX = 10_000

export const inboxResource = defineResource({
  of: inbox,
  title: 'Inbox',
  servedBy: [],
  verbs: () => ({
    states: defineVerb({
      isReadOnly: true,
      input: z.object({
        folder: Folder.optional(),
        state: InboxState.optional(),
        limit: pageLimit(50, 1000),
        after: z.int().optional(),
        seqs: z.array(z.int()).max(SEQS_MAX).optional(),
      }),
      output: z.object({ messages: z.array(MessageState), routed: z.int() }),
      authorize: operatorOn(({ folder = INSTANCE_SCOPE }) => folder),
      run: async ({ tx }, request) => {
        const found = await listMessageStates(tx, request)
        const { folder } = request
        if (found.length === 0 && folder !== undefined) await mustBeKnownFolder(tx, folder)
        return { messages: found, routed: await readRoutedSeq(tx) }
      },
    }),

    details: defineVerb({
      isReadOnly: true,
      input: z.object({ id: line(256) }),
      authorize: operatorOn(({ id }, { tx }) => folderOfMessage(tx, id)),
      run: async ({ tx }, { id }) =>
        (await readMessageDetails(tx, id)) ?? refuse('not_found', `no message with id ${id} arrived`),
    }),

    /** Message ids with a prefix, so that operators can abbreviate them. */
    ids: defineVerb({
      isReadOnly: true,
      input: z.object({ prefix: line(256), limit: pageLimit(10, 100) }),
      output: z.object({ ids: z.array(z.string()) }),
      authorize: requireOperator,
      run: async ({ tx }, { prefix, limit }) => ({ ids: await listIdsWithPrefix(tx, prefix, limit) }),
    }),
  }),
})

/** Messages that no folder has belong to the instance. */
async function folderOfMessage(tx: Tx, id: string): Promise<string> {
  return (await readMessageDetails(tx, id))?.folder ?? INSTANCE_SCOPE
}

/** A removed group may still have messages; a mistyped name has none. */
async function mustBeKnownFolder(tx: Tx, folder: string): Promise<void> {
  if ((await groups.find(tx, { folder })) || (await inbox.find(tx, { folder }))) return
  refuse('not_found', `there is no group ${folder}`)
}
