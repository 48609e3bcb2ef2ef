// Moves attachments from the store into the workspace, or into the chat directory of a visitor, before the turn runs.
import { z } from 'zod'
import { CHAT_HOME, makeChatHome } from '../../core/chats/chat-home.ts'
import { AGENT_HOME, openHome } from '../../core/groups/workspace-home.ts'
import type { Layout } from '../../core/layout.ts'
import { subtractMovedBytes } from '../../core/links/storage-use.ts'
import { type Envelope, envelopes } from '../../core/messages/envelopes.ts'
import type { ClaimedMessage, ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { reachOfTurn, type Turn } from '../../core/turns/turns.ts'
import type { Directory } from '../../lib/files/directory.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'

const BYTES_MAX = 20 * 1024 * 1024

const Attachments = z.array(
  z.looseObject({
    filename: z.string().optional(),
    mime: z.string().optional(),
    data: z.string().optional(),
    path: z.string().optional(),
    transcript: z.string().optional(),
  }),
)
export type Attachment = z.output<typeof Attachments>[number]

/** Undefined if an adapter has sent a malformed list. */
export function readAttachments({ attachments = '[]' }: Envelope): Attachment[] | undefined {
  return Attachments.safeParse(JSON.parse(attachments)).data
}

/** Returns the turn with the paths of its attachments; one that cannot be saved keeps only its name. */
export async function saveAttachments(host: InstanceHost, layout: Layout, claimed: ClaimedTurn): Promise<ClaimedTurn> {
  if (!claimed.messages.some(({ envelope }) => envelope?.attachments?.includes('"data"'))) return claimed
  const messages: ClaimedMessage[] = []
  for (const claimedMessage of claimed.messages) {
    const { envelope } = claimedMessage
    messages.push(
      envelope?.attachments
        ? { ...claimedMessage, envelope: await saveEnvelopeAttachments(host, layout, claimed, envelope) }
        : claimedMessage,
    )
  }
  return { ...claimed, messages }
}

async function saveEnvelopeAttachments(
  host: InstanceHost,
  layout: Layout,
  { turn }: ClaimedTurn,
  envelope: Envelope,
): Promise<Envelope> {
  const given = readAttachments(envelope)
  if (!given) return envelope
  const day = new Date(host.clock.now()).toISOString().slice(0, 10).replaceAll('-', '')
  const all: Attachment[] = []
  for (const [at, { data, ...fields }] of given.entries()) {
    const [directory, name] = [`media/${day}`, `${envelope.message_seq}-${at}-${nameOf(fields)}`]
    const isSaved = data !== undefined && (await saveMediaFile(layout, turn, { directory, name, base64: data }))
    all.push({
      ...fields,
      ...(isSaved ? { path: `${homeOf(turn)}/${directory}/${name}` } : {}),
    })
  }
  const attachments = JSON.stringify(all)
  const { message_seq } = envelope
  const moved = Buffer.byteLength(envelope.attachments ?? '') - Buffer.byteLength(attachments)
  await host.engine.transaction(async (tx) => {
    await envelopes.update(tx, { message_seq }, { attachments })
    await subtractMovedBytes(tx, message_seq, moved)
  })
  return { ...envelope, attachments }
}

interface MediaFile {
  /** Relative to the workspace, or to the directory of the chat. */
  readonly directory: string
  readonly name: string
  readonly base64: string
}

async function saveMediaFile(layout: Layout, turn: Turn, { directory, name, base64 }: MediaFile): Promise<boolean> {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.byteLength > BYTES_MAX) return false
  try {
    await using home = await openDirectory(layout, turn)
    await using media = await home?.makePath(directory)
    await media?.createFile(name, bytes, 0o644)
    return media !== undefined
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

/** The content of an attachment that was saved; undefined if the agent has removed it. */
export async function readMediaFile(
  layout: Layout,
  turn: Turn,
  path: string,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  const home = `${homeOf(turn)}/`
  if (!path.startsWith(home)) return undefined
  const at = path.lastIndexOf('/')
  await using directory = await openDirectory(layout, turn)
  await using media = await directory?.openPath(path.slice(home.length, at))
  return (await media?.readFile(path.slice(at + 1), maxBytes))?.data
}

/** What the agent sees as its home. */
function homeOf(turn: Turn): string {
  return isVisitorTurn(turn) ? CHAT_HOME : AGENT_HOME
}

function isVisitorTurn(turn: Turn): boolean {
  return reachOfTurn(turn) === 'chat'
}

function openDirectory(layout: Layout, turn: Turn): Promise<Directory | undefined> {
  const { folder, jid } = turn
  return isVisitorTurn(turn) ? makeChatHome(layout, { folder, jid, reach: 'chat' }) : openHome(layout, folder)
}

/** The file name without path separators and other special characters. */
function nameOf({ filename = '' }: Attachment): string {
  const safe = filename.replace(/[^\p{L}\p{N}._-]+/gu, '_').replace(/^[._]+/, '')
  return safe.slice(-100) || 'file'
}
