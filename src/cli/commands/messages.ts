// Lists inbound messages and their states. See docs/decisions.md#final-state-of-every-message.
import type { InboxState } from '../../core/messages/inbox.ts'
import type { MessageDetails } from '../../core/messages/message-states.ts'
import { cell } from '../../lib/command-line/print.ts'
import { inboxResource } from '../../resources/inbox.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { resolveIdPrefix } from '../input/id-prefix.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { type MessageFilter, messageTable } from '../output/message-table.ts'
import { formatCents } from '../output/text-format.ts'

type Answer = MessageDetails['answers'][number]

export const messagesCommands = [
  defineSvcCommand({
    usage: 'messages <instance> [<folder>] [--state|-s <state>] [--limit|-n <n>] [--follow|-f] [--json]',
    about:
      'list inbound messages and their states, newest last; --state filters by state; --follow continues, and lists each again in its final state',
    example: 'messages demo main --state failed',
    run: async (svc, { folder, state, limit, follow }) => {
      const filter: MessageFilter = {
        folder,
        // The verb checks the state.
        ...(state === undefined ? {} : { state: state as InboxState }),
        ...(limit === undefined ? {} : { limit: parseInteger('--limit', limit) }),
      }
      if (follow) return (await import('../output/message-follower.ts')).followMessages(svc, filter)
      const { messages } = await svc.call(inboxResource.verbs.states, filter)
      svc.print.table(messageTable(svc, messages, filter))
    },
  }),
  defineSvcCommand({
    usage: 'messages <instance> show <id> [--json]',
    about:
      'show all details of a message: its turn, the whole answer and its delivery, and the cost; a unique prefix of the id is enough',
    example: 'messages demo show 019c8a53-7f9e',
    run: async (svc, { id: typed }) => {
      const { ids } = await svc.call(inboxResource.verbs.ids, { prefix: typed })
      showMessage(svc, await svc.call(inboxResource.verbs.details, { id: resolveIdPrefix('message', typed, ids) }))
    },
  }),
]

function showMessage(svc: SvcContext, message: MessageDetails): void {
  const { print } = svc
  const { turn, envelope, round, answers, costs } = message
  print.record(
    omitUndefined({
      id: message.id,
      time: message.created_at,
      state: message.state,
      since: message.updated_at,
      reason: message.reason,
      folder: message.folder,
      topic: message.topic || undefined,
      chat: message.chat,
      sender: message.sender,
      verb: envelope?.verb,
      reach: message.reach,
      event: message.event,
      task: envelope?.task_id,
      'from turn': envelope?.from_turn,
      'waits for': message.waits_for,
      round: round && `${round.status}, ${round.last_seq} frames`,
      'round error': round?.error,
      text: message.text,
      turn: turn?.id,
      'turn state': turn?.outcome ?? turn?.state,
      'turn messages': turn?.message_count,
      attempts: turn?.attempts,
      // During retries only the turn has a reason.
      'last failure': turn?.reason === message.reason ? undefined : turn?.reason,
      started: turn?.started_at,
      ended: turn?.ended_at,
      'may cost': turn?.money_cents === undefined ? undefined : formatCents(turn.money_cents),
    }),
    message,
  )
  if (print.json) return
  for (const answer of answers) showAnswer(svc, answer)
  if (costs.length > 0)
    print.table({
      rows: costs,
      columns: {
        MODEL: ({ model }) => model,
        INPUT: ({ input_tokens }) => input_tokens,
        OUTPUT: ({ output_tokens }) => output_tokens,
        CENTS: ({ cost_cents }) => cost_cents,
      },
      empty: '',
    })
}

/** Prints the delivery state and the whole text, indented. */
function showAnswer({ print }: SvcContext, { created_at, kind, chat, state, attempts, error, text }: Answer): void {
  const tries = attempts > 1 ? ` after ${attempts} tries` : ''
  const reason = error === undefined ? '' : `: ${error}`
  print.line(cell(`answer of ${created_at} (${kind}) to ${chat}, ${state}${tries}${reason}`))
  for (const line of text.split('\n')) print.line(`  ${line.split('\t').map(cell).join('\t')}`)
}

function omitUndefined(fields: Readonly<Record<string, string | number | undefined>>): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}
