// Turns: what agents do and did. Only for the command line and the dashboard.
import { z } from 'zod'
import { listAnswers } from '../core/messages/message-states.ts'
import { costLog } from '../core/turns/costs.ts'
import { notifyStreams } from '../core/turns/rounds.ts'
import {
  findLastAnswer,
  listOpenTurns,
  listTurnIdsWithPrefix,
  listTurnMessages,
  listTurns,
  TurnOutcome,
  TurnSummary,
} from '../core/turns/turn-list.ts'
import { readTurnLog, type TurnLogTail } from '../core/turns/turn-log-files.ts'
import { stopTurns, Turn, turns } from '../core/turns/turns.ts'
import { Folder, line, pageLimit } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { listOwnFolders, mayReadReport } from '../permissions/own-folders.ts'
import { listTurnCalls } from '../registry/audit.ts'
import { INSTANCE_SCOPE, operatorOn, operatorWho, requireOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import type { Tx } from '../store/engine.ts'

const TurnId = z.object({ id: line(256) })
const TurnStep = z.object({
  kind: z.enum(['started', 'waiting', 'call', 'status', 'message']),
  text: z.string().describe('The action of a call, or the beginning of the message'),
  since: z.string(),
})
type TurnStep = z.output<typeof TurnStep>

/** Newest calls that `show` returns. */
const CALLS_MAX = 200
const RUNNING_MAX = 50

export const turnsResource = defineResource({
  of: turns,
  title: 'Turns',
  servedBy: [],
  verbs: () => ({
    /** Newest first. Without a folder: of all folders that the person administers. */
    list: defineVerb({
      isReadOnly: true,
      input: z.object({
        folder: Folder.optional(),
        state: Turn.shape.state.optional(),
        outcome: TurnOutcome.optional(),
        limit: pageLimit(50, 1000),
        after: line(256).optional().describe('The `next` value of the previous page'),
      }),
      output: z.object({ turns: z.array(TurnSummary), next: z.string().optional() }),
      authorize: operatorWho(mayReadReport),
      run: async (ctx, { folder, after, limit, ...filter }) => {
        const folders = folder === undefined ? await listOwnFolders(ctx) : [folder]
        const found = await listTurns(ctx.tx, { ...filter, folders, before: after, limit: limit + 1 })
        const page = found.slice(0, limit)
        return { turns: page, ...(found.length > limit ? { next: page.at(-1)?.id } : {}) }
      },
    }),

    show: defineVerb({
      isReadOnly: true,
      input: TurnId,
      authorize: operatorOn(folderOfTurn),
      run: async ({ tx }, { id }) => {
        const turn = await mustFindTurn(tx, id)
        return {
          turn,
          messages: await listTurnMessages(tx, id),
          calls: await listTurnCalls(tx, id, CALLS_MAX),
          answers: await listAnswers(tx, id),
          costs: await costLog.list(tx, { folder: turn.folder, turn_id: id }),
        }
      },
    }),

    /** The end of its log; undefined if this machine has none. */
    log: defineVerb({
      isReadOnly: true,
      input: TurnId.extend({ lines: pageLimit(200, 1000) }),
      output: z.object({ lines: z.array(z.string()), is_cut: z.boolean() }).optional(),
      authorize: operatorOn(folderOfTurn),
      prepare: async ({ host: { layout, engine, clock } }, { id, lines }) => {
        const turn = layout && (await engine.read((tx) => turns.find(tx, { id })))
        return layout && turn && readTurnLog(layout, turn, { lines, now: clock.now() })
      },
      run: async ({ tx }, { id }, tail) => {
        await mustFindTurn(tx, id)
        const { lines, is_cut } = (tail as TurnLogTail | undefined) ?? {}
        return lines && { lines: [...lines], is_cut: is_cut === true }
      },
    }),

    /** Turns that have not ended, each with its current step. */
    running: defineVerb({
      isReadOnly: true,
      input: z.object({ folder: Folder.optional() }),
      output: z.object({ turns: z.array(TurnSummary.extend({ step: TurnStep })) }),
      authorize: operatorWho(mayReadReport),
      run: async (ctx, { folder }) => {
        const folders = folder === undefined ? await listOwnFolders(ctx) : [folder]
        const open = await listOpenTurns(ctx.tx, folders, RUNNING_MAX)
        const found = []
        for (const turn of open) found.push({ ...turn, step: await readStep(ctx.tx, turn) })
        return { turns: found }
      },
    }),

    /** Ids with a prefix, so that operators can abbreviate them. */
    ids: defineVerb({
      isReadOnly: true,
      input: z.object({ prefix: line(256), limit: pageLimit(10, 100) }),
      output: z.object({ ids: z.array(z.string()) }),
      authorize: requireOperator,
      run: async ({ tx }, { prefix, limit }) => ({ ids: await listTurnIdsWithPrefix(tx, prefix, limit) }),
    }),

    /** Like the chat command /stop, for one turn. The process that runs it ends it. */
    stop: defineVerb({
      input: TurnId,
      authorize: operatorOn(folderOfTurn),
      run: async (ctx, { id }) => {
        const turn = await mustFindTurn(ctx.tx, id)
        if ((await stopTurns(ctx.tx, { id })) === 0) refuse('conflict', `turn ${id} has ended: ${turn.outcome}`)
        await notifyStreams(ctx.tx, ctx.dialect, id, turn.jid)
        ctx.afterCommit(() => ctx.signals.emit([], ['turns']))
      },
    }),
  }),
})

function mustFindTurn(tx: Tx, id: string): Promise<Turn> {
  return mustFindRow({ tx }, turns, { id }, `turn with id ${id}`)
}

/** Only operators learn that there is no such turn. */
async function folderOfTurn({ id }: { readonly id: string }, { tx }: Context): Promise<string> {
  return (await turns.find(tx, { id }))?.folder ?? INSTANCE_SCOPE
}

/** The last call or message of the turn, whichever is later. */
async function readStep(tx: Tx, { id, state, started_at, reason = '' }: TurnSummary): Promise<TurnStep> {
  if (state === 'retrying') return { kind: 'waiting', text: reason, since: started_at }
  const [call] = await listTurnCalls(tx, id, 1)
  const answer = await findLastAnswer(tx, id)
  if (answer && (!call || answer.created_at >= call.created_at))
    return { kind: answer.kind === 'status' ? 'status' : 'message', text: answer.text, since: answer.created_at }
  if (call) return { kind: 'call', text: call.action.replace(/^tools\./, ''), since: call.created_at }
  return { kind: 'started', text: '', since: started_at }
}
