// Files that came with a message: put into the workspace, or into the directory of a visitors' chat, before the agent is told
// of them, and taken out of the store then.
import { z } from 'zod'
import { CHAT_HOME, makeChatHome } from '../../core/chat-home.ts'
import type { Asked, ClaimedTurn } from '../../core/claim.ts'
import { type Envelope, envelopes } from '../../core/envelopes.ts'
import { HOME, openHome } from '../../core/home.ts'
import type { Layout } from '../../core/layout.ts'
import { reachOfTurn, type Turn } from '../../core/turns.ts'
import type { Directory } from '../../lib/directory.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'

const BYTES_MAX = 20 * 1024 * 1024

const Attachments = z.array(z.looseObject({ filename: z.string().optional(), data: z.string().optional() }))
type Attachment = z.output<typeof Attachments>[number]

/** The same turn, whose attachments lie where its run finds them. What cannot be kept is told by its name alone. */
export async function keepAttachments(host: Host, layout: Layout, claimed: ClaimedTurn): Promise<ClaimedTurn> {
  if (!claimed.asked.some(({ envelope }) => envelope?.attachments?.includes('"data"'))) return claimed
  const asked: Asked[] = []
  for (const each of claimed.asked) {
    const { envelope } = each
    asked.push(envelope?.attachments ? { ...each, envelope: await kept(host, layout, claimed, envelope) } : each)
  }
  return { ...claimed, asked }
}

async function kept(host: Host, layout: Layout, { turn }: ClaimedTurn, envelope: Envelope): Promise<Envelope> {
  const read = Attachments.safeParse(JSON.parse(envelope.attachments ?? '[]'))
  if (!read.success) return envelope
  const day = new Date(host.clock.now()).toISOString().slice(0, 10).replaceAll('-', '')
  const all: Attachment[] = []
  for (const [at, { data, ...known }] of read.data.entries()) {
    const [directory, name] = [`media/${day}`, `${envelope.message_seq}-${at}-${nameOf(known)}`]
    const isKept = data !== undefined && (await keep(layout, turn, { directory, name, base64: data }))
    all.push({ ...known, ...(isKept ? { path: `${isVisited(turn) ? CHAT_HOME : HOME}/${directory}/${name}` } : {}) })
  }
  const attachments = JSON.stringify(all)
  await host.engine.transaction((tx) => envelopes.update(tx, { message_seq: envelope.message_seq }, { attachments }))
  return { ...envelope, attachments }
}

interface MediaFile {
  /** Relative to the workspace, or to the directory of the chat. */
  readonly directory: string
  readonly name: string
  readonly base64: string
}

async function keep(layout: Layout, turn: Turn, { directory, name, base64 }: MediaFile): Promise<boolean> {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.byteLength > BYTES_MAX) return false
  try {
    await using home = await openReceiving(layout, turn)
    await using media = await home?.makePath(directory)
    await media?.createFile(name, bytes, 0o644)
    return media !== undefined
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

function isVisited(turn: Turn): boolean {
  return reachOfTurn(turn) === 'chat'
}

function openReceiving(layout: Layout, turn: Turn): Promise<Directory | undefined> {
  const { folder, jid } = turn
  return isVisited(turn) ? makeChatHome(layout, folder, jid) : openHome(layout, folder)
}

/** What a platform calls it, as one plain segment. */
function nameOf({ filename = '' }: Attachment): string {
  const plain = filename.replace(/[^\p{L}\p{N}._-]+/gu, '_').replace(/^[._]+/, '')
  return plain.slice(-100) || 'file'
}
