// The hidden method submit_status: an agent reports its progress to the chat of its turn.
import { z } from 'zod'
import { type Channel, ChannelError, isLinkChat } from '../core/delivery/channel.ts'
import { type OutboxRow, outbox, type RecordedOutbound, recordOutbound } from '../core/delivery/outbox.ts'
import { lockMessageOrder } from '../core/messages/messages.ts'
import { writeContextOf } from '../core/turns/rounds.ts'
import { findTurnOfConnection, type Turn, turns } from '../core/turns/turns.ts'
import { line, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { parse } from '../lib/text/schema-parser.ts'
import type { InstanceHost } from '../registry/context.ts'
import type { Tx } from '../store/engine.ts'
import { integer, query } from '../store/statement.ts'
import type { TurnMeta } from './turn-meta.ts'

const Status = z.strictObject({ turn_id: z.literal('').or(line(256)).optional(), text: multilineText(10_000) })

/** Marks a progress message on platforms, which have no status frames. */
const HOURGLASS = '⏳'

/** Ignores an empty text and a turn that has ended. */
export async function handleSubmitStatus(
  host: InstanceHost,
  folder: string,
  connectionTurn: TurnMeta | undefined,
  params: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { _meta, ...members } = params
  const { turn_id, text } = parse(Status, members)
  if (text.trim() === '') return
  const turn = await host.engine.read((tx) => findTurn(tx, folder, turn_id || connectionTurn?.id))
  if (turn?.state !== 'running') return
  if (connectionTurn?.id === turn.id && (connectionTurn.fence ?? turn.fence) !== turn.fence) return
  const previous = isLinkChat(turn.jid) ? undefined : await host.engine.read((tx) => lastStatus(tx, turn))
  if (previous?.platform_id !== undefined && (await editStatus(host, previous, text))) return
  await host.engine.transaction(async (tx) => {
    await lockMessageOrder(tx, host.engine.dialect)
    // Another process may have claimed the turn meanwhile.
    const { id, fence } = turn
    if (!(await turns.find(tx, { id, fence, state: 'running' }))) return
    const { keys } = await recordStatus(tx, host, turn, text)
    tx.onCommit(() => host.signals.emit(keys))
  })
}

/** A status is not an answer: a turn that sent nothing else counts as silent. */
export function recordStatus(tx: Tx, host: InstanceHost, turn: Turn, text: string): Promise<RecordedOutbound> {
  const { jid, chat_topic: topic, folder, id: turn_id } = turn
  const out = { jid, topic, folder, turn_id, kind: 'status', content: contentFor(jid, text), engages: false } as const
  return recordOutbound(tx, writeContextOf(host), host.rules, out)
}

async function findTurn(tx: Tx, folder: string, id: string | undefined): Promise<Turn | undefined> {
  if (id === undefined) return findTurnOfConnection(tx, folder)
  return (await turns.find(tx, { id, folder })) ?? refuse('not_found', `no turn with id ${id} in this folder`)
}

/** The last status of the turn that was delivered. */
async function lastStatus(tx: Tx, { id, jid }: Turn): Promise<OutboxRow | undefined> {
  const [last] = await query(
    tx,
    { message_seq: integer },
    `select o.message_seq from outbox o join messages m on m.seq = o.message_seq
     where o.turn_id = $1 and o.jid = $2 and o.state = 'sent' and m.kind = 'status' order by o.message_seq desc limit 1`,
    [id, jid],
  )
  return last && outbox.find(tx, last)
}

/** False if the platform cannot edit that message; the caller then sends a new one. */
async function editStatus(
  host: InstanceHost,
  { jid, channel: source, platform_id }: OutboxRow,
  text: string,
): Promise<boolean> {
  const channel: Channel | undefined = await host.channels.resolve(jid, source)
  if (!channel?.actions.edit || platform_id === undefined) return false
  try {
    await channel.actions.edit({ jid, targetId: platform_id, content: contentFor(jid, text) })
    return true
  } catch (error) {
    // The message may be deleted, or too old to be edited.
    if (error instanceof ChannelError && error.kind === 'permanent') return false
    if (error instanceof ChannelError) refuse('unavailable', error.message)
    throw error
  }
}

function contentFor(jid: string, text: string): string {
  return isLinkChat(jid) ? text.trim() : `${HOURGLASS} ${text.trim()}`
}
