// What became of each message: it waits, it runs, or it has come to its one end (decision L14).
import type { InboxState } from '../../core/inbox.ts'
import type { MessageStory } from '../../core/message-states.ts'
import { inboxResource } from '../../resources/inbox.ts'
import { command, type Svc } from '../command.ts'
import { cut, type Only, oneLine, tableOf } from '../message-table.ts'
import { wholeNumber } from '../number.ts'

export const messagesCommands = [
  command({
    usage: 'messages <instance> [<folder>] [--state|-s <state>] [--limit|-n <n>] [--follow|-f] [--json]',
    about:
      'show what became of the messages that arrived, newest last; --state shows only those in it; --follow goes on, and shows each again at its end',
    example: 'messages demo main --state failed',
    run: async (svc, { folder, state, limit, follow }) => {
      const only: Only = {
        folder,
        // The verb says which states there are.
        ...(state === undefined ? {} : { state: state as InboxState }),
        ...(limit === undefined ? {} : { limit: wholeNumber('--limit', limit) }),
      }
      if (follow) return (await import('../message-following.ts')).followMessages(svc, only)
      const { messages } = await svc.call(inboxResource.verbs.states, only)
      svc.print.table(tableOf(svc, messages, only))
    },
  }),
  command({
    usage: 'messages <instance> show <id> [--json]',
    about: 'show all that is known of one message: its turn, what was answered and how far that got, what it cost',
    example: 'messages demo show 019c8a53-7f9e-7c1e-b6bb-0f6f1f1c5a10',
    run: async (svc, { id }) => showStory(svc, await svc.call(inboxResource.verbs.story, { id })),
  }),
]

function showStory(svc: Svc, story: MessageStory): void {
  const { print } = svc
  const { turn, envelope, round, answers, costs } = story
  print.record(
    present({
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
  if (answers.length > 0)
    print.table({
      rows: answers,
      columns: {
        SAID: ({ created_at }) => created_at,
        KIND: ({ kind }) => kind,
        CHAT: ({ chat }) => chat,
        DELIVERY: ({ state }) => state,
        TRIES: ({ attempts }) => attempts,
        TEXT: ({ text }) => cut(oneLine(text), 60),
        ERROR: ({ error = '-' }) => error,
      },
      empty: '',
    })
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

function present(lines: Readonly<Record<string, string | number | undefined>>): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(lines).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}
