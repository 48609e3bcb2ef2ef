// The hidden method submit_status: how far a turn has come, for whoever waits for it.
import { z } from 'zod'
import { type Channel, ChannelFault, isLinkChat } from '../core/channel.ts'
import { queueUp } from '../core/messages.ts'
import { type Outbox, outbox, type Recorded, recordOut } from '../core/outbox.ts'
import { speakingOf } from '../core/rounds.ts'
import { type Turn, turnOf, turns } from '../core/turns.ts'
import { line, prose } from '../core/values.ts'
import { parse } from '../lib/parse.ts'
import { refuse } from '../lib/refusal.ts'
import type { Host } from '../registry/context.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import type { NamedTurn } from './naming.ts'

const Status = z.strictObject({ turn_id: z.literal('').or(line(256)).optional(), text: prose(10_000) })

/** Where no frame says that it is only about how far it is, a sign does. */
const HOURGLASS = '⏳'

/** A turn that is over, or an empty text, is nobody's news. */
export async function takeStatus(
  host: Host,
  folder: string,
  named: NamedTurn | undefined,
  params: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { _meta, ...members } = params
  const { turn_id, text } = parse(Status, members)
  if (text.trim() === '') return
  const turn = await host.engine.read((tx) => turnMeant(tx, folder, turn_id || named?.id))
  if (turn?.state !== 'running') return
  if (named?.id === turn.id && named.fence !== undefined && named.fence !== turn.fence) return
  const before = isLinkChat(turn.jid) ? undefined : await host.engine.read((tx) => lastStatus(tx, turn))
  if (before?.platform_id !== undefined && (await hasEdited(host, before, text))) return
  const said = await host.engine.transaction(async (tx) => {
    await queueUp(tx, host.engine.dialect)
    // Somebody else may have it by now.
    const { id, fence } = turn
    return (await turns.find(tx, { id, fence, state: 'running' })) && sayStatus(tx, host, turn, text)
  })
  if (said) host.signals.emit(said.keys)
}

/** Says it in the turn's chat. It is no answer: a turn that has said only this has said nothing. */
export function sayStatus(tx: Tx, host: Host, turn: Turn, text: string): Promise<Recorded> {
  const { jid, chat_topic: topic, folder, id: turn_id } = turn
  const out = { jid, topic, folder, turn_id, kind: 'status', content: contentFor(jid, text), engages: false } as const
  return recordOut(tx, speakingOf(host), host.rules, out)
}

async function turnMeant(tx: Tx, folder: string, id: string | undefined): Promise<Turn | undefined> {
  if (id === undefined) return turnOf(tx, folder)
  return (await turns.find(tx, { id, folder })) ?? refuse('not_found', `there is no turn ${id} here`)
}

/** What the turn has said last of how far it is, where that has arrived. */
async function lastStatus(tx: Tx, { id, jid }: Turn): Promise<Outbox | undefined> {
  const { rows } = await run(
    tx,
    `select o.message_seq from outbox o join messages m on m.seq = o.message_seq
     where o.turn_id = $1 and o.jid = $2 and o.state = 'sent' and m.kind = 'status' order by o.message_seq desc limit 1`,
    [id, jid],
  )
  return rows[0] && outbox.find(tx, { message_seq: Number(rows[0].message_seq) })
}

async function hasEdited(host: Host, { jid, channel: source, platform_id }: Outbox, text: string): Promise<boolean> {
  const channel: Channel | undefined = await host.channels.of(jid, source)
  if (!channel?.actions.edit || platform_id === undefined) return false
  try {
    await channel.actions.edit({ jid, targetId: platform_id, content: contentFor(jid, text) })
    return true
  } catch (error) {
    // The message may be gone, or too old for it: then a fresh one says it.
    if (error instanceof ChannelFault && error.kind === 'permanent') return false
    if (error instanceof ChannelFault) refuse('unavailable', error.message)
    throw error
  }
}

function contentFor(jid: string, text: string): string {
  return isLinkChat(jid) ? text.trim() : `${HOURGLASS} ${text.trim()}`
}
