// Lists inbound messages and their states. See docs/decisions.md#final-state-of-every-message.
import type { InboxState } from '../../core/messages/inbox.ts'
import { cell } from '../../lib/command-line/print.ts'
import { collapseWhitespace } from '../../lib/text/whitespace.ts'
import { inboxResource, type MessageStory } from '../../resources/inbox.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { resolveIdPrefix } from '../input/id-prefix.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { type MessageFilter, messageTable } from '../output/message-table.ts'
import { formatCents } from '../output/text-format.ts'

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
      const story = await svc.call(inboxResource.verbs.details, { id: await resolveId(svc, typed) })
      if (story.direction === 'in') showReceived(svc, story)
      else showSent(svc, story)
    },
  }),
  defineSvcCommand({
    usage: 'messages <instance> search <query> [--folder|-d <folder>] [--limit|-n <n>] [--json]',
    about:
      'search received and sent messages by text, best match first; words, "a phrase", a OR b, a NOT b, prefix*; --folder includes those below it',
    example: `messages demo search 'invoice NOT paid'`,
    run: async (svc, { query, folder, limit }) => {
      const { messages, next, is_capped } = await svc.call(inboxResource.verbs.search, {
        query,
        folder,
        ...(limit === undefined ? {} : { limit: parseInteger('--limit', limit) }),
      })
      svc.print.table({
        rows: messages,
        columns: {
          TIME: ({ created_at }) => created_at,
          ID: ({ id }) => id,
          STATE: ({ state }) => state,
          FOLDER: ({ folder = '-' }) => folder,
          CHAT: ({ chat }) => chat,
          SENDER: ({ sender }) => sender,
          MATCH: ({ snippet }) => collapseWhitespace(snippet),
        },
        empty: 'no message matches',
      })
      if (is_capped || next !== undefined) svc.print.say('there may be more matches: narrow the query')
    },
  }),
  defineSvcCommand({
    usage: 'messages <instance> retry <id> [--json]',
    about:
      'hand a failed or refused message to its folder again, or deliver a message again whose delivery failed; a unique prefix of the id of a received message is enough',
    example: 'messages demo retry 019c8a53-7f9e',
    run: async (svc, { id: typed }) => {
      const retried = await svc.call(inboxResource.verbs.retry, { id: await resolveId(svc, typed) })
      const { id, kind, folder, state } = retried
      if (svc.print.json) svc.print.record({ id, kind, state, ...(folder === undefined ? {} : { folder }) }, retried)
      else
        svc.print.say(kind === 'message' ? `message ${id} waits for ${folder}` : `message ${id} waits for its delivery`)
    },
  }),
]

const WHOLE_ID = /^[0-9a-f-]{36}$/

/** Only ids of received messages can be abbreviated. */
async function resolveId(svc: SvcContext, typed: string): Promise<string> {
  const { ids } = await svc.call(inboxResource.verbs.ids, { prefix: typed })
  return ids.length === 0 && WHOLE_ID.test(typed) ? typed : resolveIdPrefix('message', typed, ids)
}

type Story<D extends 'in' | 'out'> = Extract<MessageStory, { direction: D }>
type Answer = Story<'in'>['answers'][number]

function showSent({ print }: SvcContext, story: Story<'out'>): void {
  print.record(
    omitUndefined({
      id: story.id,
      time: story.created_at,
      state: story.state,
      error: story.error,
      folder: story.folder,
      chat: story.chat,
      action: story.action,
      attempts: story.attempts,
      'platform id': story.platform_id,
      turn: story.turn_id,
      answers: story.answered.map(({ id }) => id).join(' ') || undefined,
      files: fileNames(story),
      text: story.text,
    }),
    story,
  )
}

function showReceived(svc: SvcContext, message: Story<'in'>): void {
  const { print } = svc
  const { turn, envelope, round, answers, costs, retries, routing, tool_calls } = message
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
      edited: envelope?.edited_at,
      deleted: envelope?.deleted_at,
      routing: routing?.sentence,
      retries: retries.length || undefined,
      reach: message.reach,
      event: message.event,
      task: envelope?.task_id,
      'from turn': envelope?.from_turn,
      'waits for': message.waits_for,
      round: round && `${round.status}, ${round.last_seq} frames`,
      'round error': round?.error,
      files: fileNames(message),
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
  for (const { ended_at, state, reason = 'no reason' } of retries)
    print.line(cell(`earlier attempt, ended ${ended_at}: ${state}: ${reason}`))
  for (const { created_at, action, outcome, error_msg, params_summary } of tool_calls)
    print.line(cell(`call of ${created_at}: ${action} ${params_summary}, ${error_msg ?? outcome}`))
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

function fileNames({ files }: { readonly files?: readonly { readonly name: string }[] }): string | undefined {
  return files?.map(({ name }) => name).join(', ')
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
