// What became of each message: it waits, it runs, or it has come to its one end (decision L14).
import type { InboxState } from '../../core/messages/inbox.ts'
import type { MessageDetails } from '../../core/messages/message-states.ts'
import { cell } from '../../lib/command-line/print.ts'
import { inboxResource } from '../../resources/inbox.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { resolveIdPrefix } from '../input/id-prefix.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { type MessageFilter, messageTable } from '../output/message-table.ts'

type Answer = MessageDetails['answers'][number]

export const messagesCommands = [
  defineSvcCommand({
    usage: 'messages <instance> [<folder>] [--state|-s <state>] [--limit|-n <n>] [--follow|-f] [--json]',
    about:
      'show what became of the messages that arrived, newest last; --state shows only those in it; --follow goes on, and shows each again at its end',
    example: 'messages demo main --state failed',
    run: async (svc, { folder, state, limit, follow }) => {
      const only: MessageFilter = {
        folder,
        // The verb says which states there are.
        ...(state === undefined ? {} : { state: state as InboxState }),
        ...(limit === undefined ? {} : { limit: parseInteger('--limit', limit) }),
      }
      if (follow) return (await import('../output/message-follower.ts')).followMessages(svc, only)
      const { messages } = await svc.call(inboxResource.verbs.states, only)
      svc.print.table(messageTable(svc, messages, only))
    },
  }),
  defineSvcCommand({
    usage: 'messages <instance> show <id> [--json]',
    about:
      'show all that is known of one message: its turn, the whole answer and how far that got, what it cost; the beginning of the id will do',
    example: 'messages demo show 019c8a53-7f9e',
    run: async (svc, { id: typed }) => {
      const { ids } = await svc.call(inboxResource.verbs.ids, { prefix: typed })
      showMessage(svc, await svc.call(inboxResource.verbs.story, { id: resolveIdPrefix('message', typed, ids) }))
    },
  }),
]

function showMessage(svc: SvcContext, story: MessageDetails): void {
  const { print } = svc
  const { turn, envelope, round, answers, costs } = story
  print.record(
    omitUndefined({
      id: story.id,
      time: story.created_at,
      state: story.state,
      since: story.updated_at,
      reason: story.reason,
      folder: story.folder,
      topic: story.topic || undefined,
      chat: story.chat,
      sender: story.sender,
      verb: envelope?.verb,
      reach: story.reach,
      event: story.event,
      task: envelope?.task_id,
      'asked by turn': envelope?.from_turn,
      'waits for': story.waits_for,
      round: round && `${round.status}, ${round.last_seq} frames`,
      told: round?.error,
      text: story.text,
      turn: turn?.id,
      'turn state': turn?.outcome ?? turn?.state,
      'turn messages': turn?.message_count,
      attempts: turn?.attempts,
      // While it is tried again, the message has no reason yet.
      'last failure': turn?.reason === story.reason ? undefined : turn?.reason,
      started: turn?.started_at,
      ended: turn?.ended_at,
      'may cost': turn?.money_cents === undefined ? undefined : `${turn.money_cents} cents`,
    }),
    story,
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

/** How far it got, and all of it as it was said, set in. */
function showAnswer({ print }: SvcContext, { created_at, kind, chat, state, attempts, error, text }: Answer): void {
  const tries = attempts > 1 ? ` after ${attempts} tries` : ''
  const fault = error === undefined ? '' : `: ${error}`
  print.line(cell(`answer of ${created_at} (${kind}) to ${chat}, ${state}${tries}${fault}`))
  for (const line of text.split('\n')) print.line(`  ${line.split('\t').map(cell).join('\t')}`)
}

function omitUndefined(lines: Readonly<Record<string, string | number | undefined>>): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(lines).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}
