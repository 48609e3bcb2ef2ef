// Rooms to try things in: whoever types is the people there, and the agents answer as on any platform.

import {
  listRoomEntries,
  postInRoom,
  reactInRoom,
  roomJid,
  type SandboxReceipt,
  sandboxRooms,
} from '../../core/delivery/sandbox-rooms.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { integer, query, text } from '../../store/statement.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { type FollowRoomOptions, followAnswer, followRoom, formatEntry, toEntryRecord } from '../output/sandbox-room.ts'

const SHOWN = '100'
const SHOWN_MAX = 10_000
const INTERRUPTED = 130
const ENDED_WELL: readonly string[] = ['answered', 'silent', 'observed']

export const sandboxCommands = [
  defineSvcCommand({
    usage:
      'sandbox <instance> say <room> <person> <text> [--topic|-t <id>] [--mention|-m] [--reply-to|-r <id>] [--wait|-w] [--json]',
    about: 'be somebody in a room and say something; --wait prints what the agent answers',
    example: "sandbox demo say lobby mia 'What is new?' --wait",
    run: async (svc, { room, person, text, topic, mention, replyTo, wait }) => {
      const said = await postToRoom(svc, (tx, speaking) =>
        postInRoom(tx, speaking, { room, person, content: text, topic, isMention: mention, replyTo }),
      )
      if (wait) return waitForAnswer(svc, said)
      const { id, room: jid } = toEntryRecord(said.entry)
      if (svc.print.json) svc.print.record({}, { id, room: jid, message_id: said.messageId })
      else svc.print.line(`${person} said ${id} in ${jid}`)
      return 0
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> react <room> <person> <id> <emoji> [--json]',
    about: 'be somebody in a room and react to a message of it',
    example: 'sandbox demo react lobby mia s2 👍',
    run: async (svc, { room, person, id, emoji }) => {
      const said = await postToRoom(svc, (tx, speaking) => reactInRoom(tx, speaking, { room, person, id, emoji }))
      if (svc.print.json) svc.print.record({}, { ...toEntryRecord(said.entry), message_id: said.messageId })
      else svc.print.line(`${person} gave ${emoji} to ${id}`)
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> show <room> [--limit|-n <count>] [--follow|-f] [--json]',
    about: 'print what was said in a room, with ids, reactions, pins and edits; --follow goes on until Ctrl-C',
    example: 'sandbox demo show lobby --follow',
    run: async (svc, { room, limit = SHOWN, follow }) => {
      const [jid, { host }] = [roomJid(room), await svc.open()]
      const count = Math.min(Math.max(parseInteger('--limit', limit), 1), SHOWN_MAX)
      const { entries, about } = await host.engine.read(async (tx) => ({
        entries: await listRoomEntries(tx, jid, { limit: count }),
        about: await sandboxRooms.find(tx, { jid }),
      }))
      if (svc.print.json && !follow) svc.print.record({}, entries.map(toEntryRecord))
      else for (const entry of entries) createEntryPrinter(svc)(entry)
      if (about?.title !== undefined && !svc.print.json) svc.print.say(`pane: ${about.title}`)
      for (const prompt of svc.print.json ? [] : (about?.prompts ?? [])) svc.print.say(`prompt: ${prompt.title}`)
      if (about?.is_typing && !svc.print.json) svc.print.say('… the agent is typing')
      if (entries.length === 0 && !svc.print.json) svc.print.say(`nothing was said in ${jid}`)
      if (follow) await followRoom(host, jid, entries.at(-1)?.seq ?? 0, followOptions(svc))
    },
  }),
  defineSvcCommand({
    usage: 'sandbox <instance> rooms [--json]',
    about: 'list the rooms in which something was said',
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

type Speak = (
  tx: Parameters<typeof postInRoom>[0],
  speaking: Parameters<typeof postInRoom>[1],
) => ReturnType<typeof postInRoom>

async function postToRoom(svc: SvcContext, speak: Speak): Promise<SandboxReceipt> {
  const { host } = await svc.open()
  const speaking = writeContextOf(host)
  const said = await host.engine.transaction((tx) => speak(tx, speaking))
  host.signals.emit()
  return said
}

/** Exit code 0 where it came to a good end. */
async function waitForAnswer(svc: SvcContext, said: SandboxReceipt): Promise<number> {
  const { host, name } = await svc.open()
  const answers: object[] = []
  const { signal, show } = followOptions(svc)
  const end = await followAnswer(host, said, {
    signal,
    show: (entry) => (svc.print.json ? void answers.push(toEntryRecord(entry)) : show(entry)),
    onIdle: () => svc.print.say(`… nobody has taken it up yet; svc serve ${name} starts the server`),
  })
  if (!end) {
    svc.print.say(`stopped waiting; svc sandbox ${name} show ${said.entry.jid} shows what comes of it`)
    return INTERRUPTED
  }
  const { state, reason } = end
  if (svc.print.json) {
    const { id, room } = toEntryRecord(said.entry)
    svc.print.record({}, { id, room, message_id: said.messageId, state, ...(reason ? { reason } : {}), answers })
  } else if (state !== 'answered') svc.print.say(`${state}${reason === undefined ? '' : `: ${reason}`}`)
  return ENDED_WELL.includes(state) ? 0 : 1
}

function createEntryPrinter(svc: SvcContext): FollowRoomOptions['show'] {
  return (entry) => svc.print.line(svc.print.json ? JSON.stringify(toEntryRecord(entry)) : formatEntry(entry))
}

function followOptions(svc: SvcContext): FollowRoomOptions {
  const stop = new AbortController()
  void svc.io.stopped().then(() => stop.abort())
  return { signal: stop.signal, show: createEntryPrinter(svc) }
}
