// Sandbox rooms for tests: the operator posts as any person, and agents answer as on other platforms.
import {
  deleteInRoom,
  editInRoom,
  findButton,
  listRoomEntries,
  postInRoom,
  reactInRoom,
  roomJid,
  type SandboxChange,
  type SandboxEntry,
  type SandboxReceipt,
  sandboxRooms,
  unreactInRoom,
} from '../../core/delivery/sandbox-rooms.ts'
import { type WriteContext, writeContextOf } from '../../core/turns/rounds.ts'
import { pressButton } from '../../daemons/process/button-presses.ts'
import { cell } from '../../lib/command-line/print.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, query, text } from '../../store/statement.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { type FollowRoomOptions, followAnswer, followRoom, formatEntry, toEntryRecord } from '../output/sandbox-room.ts'

const DEFAULT_LIMIT = '100'
const LIMIT_MAX = 10_000
const EXIT_INTERRUPTED = 130
const SUCCESS_STATES: readonly string[] = ['answered', 'silent', 'observed']

export const sandboxCommands = [
  defineSvcCommand({
    usage:
      'sandbox <instance> say <room> <person> <text> [--topic|-t <id>] [--mention|-m] [--reply-to|-r <id>] [--wait|-w] [--json]',
    about: 'post a message in a room as <person>; --wait prints the answer of the agent',
    example: "sandbox demo say lobby mia 'What is new?' --wait",
    run: async (svc, { room, person, text, topic, mention, replyTo, wait }) => {
      const posted = await changeRoom(svc, (tx, context) =>
        postInRoom(tx, context, { room, person, content: text, topic, isMention: mention, replyTo }),
      )
      if (wait) return waitForAnswer(svc, posted)
      const { id, room: jid } = toEntryRecord(posted.entry)
      if (svc.print.json) svc.print.record({}, { id, room: jid, message_id: posted.messageId })
      else svc.print.line(`${person} posted ${id} in ${jid}`)
      return 0
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> edit <room> <person> <id> <text> [--json]',
    about: 'change the text of a message that <person> posted',
    example: "sandbox demo edit lobby mia s1 'What is new today?'",
    run: async (svc, { room, person, id, text: content }) => {
      const edited = await changeRoom(svc, (tx, context) => editInRoom(tx, context, { room, person, id, content }))
      printChange(svc, edited, `${person} edited ${id}`)
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> delete <room> <person> <id> [--json]',
    about: 'delete a message that <person> posted',
    example: 'sandbox demo delete lobby mia s1',
    run: async (svc, { room, person, id }) => {
      const deleted = await changeRoom(svc, (tx, context) => deleteInRoom(tx, context, { room, person, id }))
      printChange(svc, deleted, `${person} deleted ${id}`)
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> react <room> <person> <id> <emoji> [--remove] [--json]',
    about: 'react to a message in a room as <person>; --remove takes the reaction back',
    example: 'sandbox demo react lobby mia s2 👍',
    run: async (svc, { room, person, id, emoji, remove }) => {
      const change = remove ? unreactInRoom : reactInRoom
      const changed = await changeRoom(svc, (tx, context) => change(tx, context, { room, person, id, emoji }))
      printChange(
        svc,
        changed,
        remove ? `${person} took ${emoji} back from ${id}` : `${person} reacted to ${id} with ${emoji}`,
      )
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> press <room> <person> <id> <button> [--json]',
    about: 'press a button of a message as <person>',
    example: 'sandbox demo press lobby mia s2 approve',
    run: async (svc, { room, person, id, button }) => {
      const { host } = await svc.open()
      const { jid, sender } = await host.engine.read((tx) => findButton(tx, { room, person, id, button }))
      const { ignored } = await pressButton(host, { jid, message: id, action: button, sender, name: person })
      if (svc.print.json) svc.print.record({}, { id, room: jid, button, ignored })
      else if (ignored === undefined) svc.print.line(`${person} pressed ${button} of ${id}`)
      else svc.print.say(`nothing has happened: ${ignored}`)
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> show <room> [--limit|-n <count>] [--follow|-f] [--json]',
    about: 'print the messages of a room with ids, reactions, pins and edits; --follow continues until Ctrl-C',
    example: 'sandbox demo show lobby --follow',
    run: async (svc, { room, limit = DEFAULT_LIMIT, follow }) => {
      const [jid, { host }] = [roomJid(room), await svc.open()]
      const count = Math.min(Math.max(parseInteger('--limit', limit), 1), LIMIT_MAX)
      const { entries, about } = await host.engine.read(async (tx) => ({
        entries: await listRoomEntries(tx, jid, { limit: count }),
        about: await sandboxRooms.find(tx, { jid }),
      }))
      if (svc.print.json && !follow) svc.print.record({}, entries.map(toEntryRecord))
      else for (const entry of entries) printEntry(svc, entry)
      if (!svc.print.json) {
        if (about?.title !== undefined) svc.print.say(`pane: ${about.title}`)
        for (const prompt of about?.prompts ?? []) svc.print.say(`prompt: ${prompt.title}`)
        if (about?.is_typing) svc.print.say('… the agent is typing')
        for (const topic of about?.typing_topics ?? []) svc.print.say(`… the agent is typing in #${cell(topic)}`)
        for (const { topic, content } of Object.values(about?.drafts ?? {}))
          svc.print.say(`… the agent is writing${topic === undefined ? '' : ` in #${cell(topic)}`}: ${cell(content)}`)
        if (entries.length === 0) svc.print.say(`no messages in ${jid}`)
      }
      if (follow) await followRoom(host, jid, entries.at(-1)?.seq ?? 0, followOptions(svc))
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> rooms [--json]',
    about: 'list the rooms that have messages',
    example: 'sandbox demo rooms',
    run: async (svc) => {
      const { host } = await svc.open()
      const rows = await host.engine.read((tx) =>
        query(
          tx,
          { room: text, messages: integer, last_at: text },
          `select jid as room, count(*) as messages, max(created_at) as last_at from sandbox_entries
           group by jid order by jid`,
        ),
      )
      svc.print.table({
        rows,
        columns: {
          ROOM: ({ room }) => room,
          MESSAGES: ({ messages }) => messages,
          LAST_AT: ({ last_at }) => last_at,
        },
        empty: 'no rooms; svc sandbox <instance> say lobby mia hello opens one',
      })
    },
  }),
]

async function changeRoom<T>(svc: SvcContext, change: (tx: Tx, context: WriteContext) => Promise<T>): Promise<T> {
  const { host } = await svc.open()
  const context = writeContextOf(host)
  const changed = await host.engine.transaction((tx) => change(tx, context))
  host.signals.emit()
  return changed
}

function printChange({ print }: SvcContext, { entry, messageId }: SandboxChange, sentence: string): void {
  if (print.json) print.record({}, { ...toEntryRecord(entry), message_id: messageId })
  else print.line(sentence)
}

/** Returns the exit code. */
async function waitForAnswer(svc: SvcContext, posted: SandboxReceipt): Promise<number> {
  const { host, name, layout } = await svc.open()
  const { startCommand } = await import('../../deploy/start-command.ts')
  const start = await startCommand({ name, layout })
  const answers: object[] = []
  const { signal, show } = followOptions(svc)
  const end = await followAnswer(host, posted, {
    signal,
    show: (entry) => (svc.print.json ? void answers.push(toEntryRecord(entry)) : show(entry)),
    onIdle: () => svc.print.say(`… the message has not been routed yet; ${start} starts the server`),
  })
  if (!end) {
    svc.print.say(`stopped waiting; svc sandbox ${name} show ${posted.entry.jid} prints later answers`)
    return EXIT_INTERRUPTED
  }
  const { state, reason } = end
  if (svc.print.json) {
    const { id, room } = toEntryRecord(posted.entry)
    svc.print.record({}, { id, room, message_id: posted.messageId, state, ...(reason ? { reason } : {}), answers })
  } else if (state !== 'answered') svc.print.say(`${state}${reason === undefined ? '' : `: ${reason}`}`)
  return SUCCESS_STATES.includes(state) ? 0 : 1
}

function printEntry({ print }: SvcContext, entry: SandboxEntry): void {
  print.line(print.json ? JSON.stringify(toEntryRecord(entry)) : formatEntry(entry))
}

function followOptions(svc: SvcContext): FollowRoomOptions {
  const stop = new AbortController()
  void svc.io.stopped().then(() => stop.abort())
  return { signal: stop.signal, show: (entry) => printEntry(svc, entry) }
}
