// Turns: what agents do and did.
import type { Turn } from '../../core/turns/turns.ts'
import { cell } from '../../lib/command-line/print.ts'
import { collapseWhitespace } from '../../lib/text/whitespace.ts'
import { turnsResource } from '../../resources/turns.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { resolveIdPrefix } from '../input/id-prefix.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { truncateColumns } from '../output/message-table.ts'
import { formatCents } from '../output/text-format.ts'

const turns = turnsResource.verbs
const TEXT_WIDTH = 60

export const turnsCommands = [
  defineSvcCommand({
    usage: 'turns <instance> list [<folder>] [--state|-s <state>] [--outcome|-o <outcome>] [--limit|-n <n>] [--json]',
    about:
      'list turns, newest first; a state is running, retrying or done, an outcome answered, silent, failed or refused',
    example: 'turns demo list main --outcome failed',
    run: async (svc, { folder, state, outcome, limit }) => {
      const { turns: found } = await svc.call(turns.list, {
        folder,
        // The verb checks them.
        state: state as Turn['state'] | undefined,
        outcome: outcome as 'failed' | undefined,
        ...(limit === undefined ? {} : { limit: parseInteger('--limit', limit) }),
      })
      svc.print.table({
        rows: found,
        columns: {
          STARTED: ({ started_at }) => started_at,
          ID: ({ id }) => id,
          FOLDER: (turn) => turn.folder,
          STATE: (turn) => turn.outcome ?? (turn.is_stopping ? 'stopping' : turn.state),
          CHAT: ({ jid }) => jid,
          CENTS: ({ cost_cents }) => cost_cents,
          TEXT: ({ text }) => truncateColumns(collapseWhitespace(text), TEXT_WIDTH),
        },
        empty: 'no turns',
      })
    },
  }),
  defineSvcCommand({
    usage: 'turns <instance> running [--json]',
    about: 'list the turns that have not ended, each with its current step',
    example: 'turns demo running',
    run: async (svc) =>
      svc.print.table({
        rows: (await svc.call(turns.running, {})).turns,
        columns: {
          ID: ({ id }) => id,
          FOLDER: ({ folder }) => folder,
          STATE: ({ state, is_stopping }) => (is_stopping ? 'stopping' : state),
          STEP: ({ step }) => `${step.kind} ${truncateColumns(collapseWhitespace(step.text), TEXT_WIDTH)}`.trim(),
          SINCE: ({ step }) => step.since,
        },
        empty: 'no turn is running',
      }),
  }),
  defineSvcCommand({
    usage: 'turns <instance> show <id> [--json]',
    about: 'show a turn: its messages, the changes that it made, its answers and its cost; a unique prefix is enough',
    example: 'turns demo show 019c8a53-7f9e',
    run: async (svc, { id }) => showTurn(svc, await resolveTurnId(svc, id)),
  }),
  defineSvcCommand({
    usage: 'turns <instance> stop <id>',
    about: 'stop a running turn, like /stop in its chat',
    example: 'turns demo stop 019c8a53-7f9e',
    run: async (svc, { id: typed }) => {
      const id = await resolveTurnId(svc, typed)
      await svc.call(turns.stop, { id })
      svc.print.line(`stopping turn ${id}`)
    },
  }),
]

async function resolveTurnId(svc: SvcContext, typed: string): Promise<string> {
  return resolveIdPrefix('turn', typed, (await svc.call(turns.ids, { prefix: typed })).ids)
}

async function showTurn(svc: SvcContext, id: string): Promise<void> {
  const found = await svc.call(turns.show, { id })
  const { turn, messages, calls, answers, costs } = found
  const { print } = svc
  const cents = costs.reduce((sum, { cost_cents }) => sum + cost_cents, 0)
  print.record(
    {
      id,
      folder: turn.folder,
      chat: turn.jid,
      state: turn.outcome ?? turn.state,
      ...(turn.reason === undefined ? {} : { reason: turn.reason }),
      attempts: turn.attempts,
      started: turn.started_at,
      ...(turn.ended_at === undefined ? {} : { ended: turn.ended_at }),
      cost: formatCents(cents),
    },
    found,
  )
  if (print.json) return
  const lines = [
    ...messages.map(({ created_at, sender, text }) => `${created_at} ${sender}: ${collapseWhitespace(text)}`),
    ...calls.map(
      (call) => `${call.created_at} ${call.action} ${call.params_summary} ${call.error_msg ?? call.outcome}`,
    ),
    ...answers.map(({ created_at, state, text }) => `${created_at} answer, ${state}: ${collapseWhitespace(text)}`),
  ]
  for (const line of lines.toSorted()) print.line(cell(line))
}
