// The channel of the sandbox: saves what an agent does there in the store, where `svc sandbox` shows it.
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import {
  type Channel,
  type ChannelActions,
  type ChannelContext,
  ChannelError,
  type OutgoingFile,
  type OutgoingForward,
} from '../../core/delivery/channel.ts'
import { INSTANCE_SENDER } from '../../core/delivery/outbox.ts'
import {
  addEntry,
  addReaction,
  deletedEntry,
  entryId,
  findEntry,
  listRoomEntries,
  type NewEntry,
  removeDraft,
  requireSandboxEntry,
  SANDBOX,
  setDraft,
  setTyping,
  unpinAllEntries,
  updateEntry,
  updateRoom,
} from '../../core/delivery/sandbox-rooms.ts'
import { timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'

/** Limit of the history, like the limited window of real platforms. */
const WINDOW = 1000

export function openChannel({ engine, clock, random, signals }: ChannelContext): Channel {
  const context = { dialect: engine.dialect, clock, random }
  const change: typeof engine.transaction = async (work) => {
    const result = await engine.transaction(work).catch(throwChannelError)
    signals.emit()
    return result
  }
  const add = async (entry: Omit<NewEntry, 'author'>, author = INSTANCE_SENDER, turnId?: string) => {
    const added = await change(async (tx) => {
      await removeDraft(tx, entry.jid, turnId)
      return addEntry(tx, context, { ...entry, author, is_from_me: true })
    })
    return { id: entryId(added) }
  }
  const file = (kind: 'send_file' | 'send_voice') => async (out: OutgoingFile) => {
    const { jid, key, filename, mime, caption = '', threadId: topic, replyTo: reply_to, agentName } = out
    const files = [{ ...(await requireFile(out.path)), filename, ...(mime === undefined ? {} : { mime }) }]
    return add({ jid, key, kind, content: caption, files, topic, reply_to }, agentName)
  }
  const relay = (kind: 'forward' | 'quote' | 'repost') => async (out: OutgoingForward) => {
    const { jid, key, comment = '', sourceMsgId: source_id, sourceJid: source_jid, threadId: topic, agentName } = out
    await engine.read((tx) => requireSandboxEntry(tx, source_jid, source_id)).catch(throwChannelError)
    return add({ jid, key, kind, content: comment, source_id, source_jid, topic }, agentName)
  }
  const patchEntry = async (jid: string, id: string, patch: (now: string) => Partial<NewEntry>): Promise<void> => {
    await change(async (tx) => {
      const { seq } = await requireSandboxEntry(tx, jid, id)
      await updateEntry(tx, seq, patch(timestamp(clock.now())))
    })
  }
  const actions: ChannelActions = {
    send: async ({ jid, key, content, threadId: topic, replyTo: reply_to, buttons, agentName, turnId }) => {
      // The store has all messages of the sandbox, unlike those of other platforms.
      const isKnown = reply_to === undefined || (await engine.read((tx) => findEntry(tx, jid, reply_to))) !== undefined
      if (!isKnown) throw new ChannelError('permanent', `there is no message ${reply_to} in ${jid}`)
      return add({ jid, key, content, topic, reply_to, buttons: buttons && [...buttons] }, agentName, turnId)
    },
    send_file: file('send_file'),
    send_voice: file('send_voice'),
    post: async ({ jid, key, content, media, mediaNames = [], agentName }) => {
      const files = await Promise.all(
        media.map(async (path, at) => {
          const file = await requireFile(path)
          return { ...file, filename: mediaNames[at] ?? file.filename }
        }),
      )
      return add({ jid, key, kind: 'post', content, files }, agentName)
    },
    forward: relay('forward'),
    quote: relay('quote'),
    repost: relay('repost'),
    like: async ({ jid, targetId: id, reaction }) => {
      await change((tx) => addReaction(tx, { jid, id, person: INSTANCE_SENDER, emoji: reaction || '👍' }))
    },
    dislike: async ({ jid, targetId: id }) => {
      await change((tx) => addReaction(tx, { jid, id, person: INSTANCE_SENDER, emoji: '👎' }))
    },
    edit: ({ jid, targetId, content }) =>
      patchEntry(jid, targetId, (edited_at) => ({ content, edited_at, buttons: undefined })),
    delete: ({ jid, targetId }) => patchEntry(jid, targetId, deletedEntry),
    pin_message: ({ jid, targetId }) => patchEntry(jid, targetId, () => ({ is_pinned: true })),
    unpin_message: ({ jid, targetId }) => patchEntry(jid, targetId, () => ({ is_pinned: false })),
    unpin_all: async ({ jid }) => {
      await change((tx) => unpinAllEntries(tx, jid))
    },
    pane_set_prompts: ({ jid, prompts }) => change((tx) => updateRoom(tx, jid, { prompts: [...prompts] })),
    pane_set_title: ({ jid, title }) => change((tx) => updateRoom(tx, jid, { title })),
    typing: (state) => change((tx) => setTyping(tx, state)),
    draft: (state) => change((tx) => (state.isDone ? removeDraft(tx, state.jid, state.key) : setDraft(tx, state))),
    fetch_history: async ({ jid, limit, before }) => {
      const entries = await engine.read((tx) => listRoomEntries(tx, jid, { before, limit: Math.min(limit, WINDOW) }))
      return {
        cap: String(WINDOW),
        messages: entries
          .filter(({ deleted_at }) => deleted_at === undefined)
          .map((entry) => ({
            id: entryId(entry),
            sender: entry.is_from_me ? INSTANCE_SENDER : `${SANDBOX}:${entry.author}`,
            senderName: entry.author,
            content: entry.content,
            timestamp: entry.created_at,
            topic: entry.topic,
            replyTo: entry.reply_to,
            isFromMe: entry.is_from_me,
          })),
      }
    },
  }
  return {
    name: SANDBOX,
    platform: SANDBOX,
    isInternal: false,
    isIdempotent: true,
    hasButtons: true,
    actions,
    hint: () => 'say it in words with send(chatJid, text)',
  }
}

async function requireFile(path: string): Promise<{ filename: string; path: string; size: number }> {
  const size = await stat(path).then(
    (stats) => (stats.isFile() ? stats.size : undefined),
    () => undefined,
  )
  if (size === undefined) throw new ChannelError('permanent', `there is no file ${basename(path)}`)
  return { filename: basename(path), path, size }
}

/** A refusal is permanent: a retry would be refused too. */
function throwChannelError(error: unknown): never {
  if (error instanceof Refusal && error.code !== 'unavailable') throw new ChannelError('permanent', error.message)
  throw error
}
