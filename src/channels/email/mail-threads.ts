// Ids of mails and of threads, and what must be known of a mail to answer it in its thread.
import { createHash } from 'node:crypto'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import type { AdapterStore } from '../process/adapter-store.ts'

const ID_MAX = 256
/** References that are kept: the first one and the last ones. */
const REFERENCES_MAX = 20

/** What an answer to a mail needs. */
export interface MailRecord {
  /** Without brackets: what References contain. Absent if the mail has none. */
  readonly messageId?: string | undefined
  readonly subject: string
  readonly references: readonly string[]
  /** Whom an answer is sent to. */
  readonly to: string
  readonly toName?: string | undefined
  /** The part of the JID after the colon. */
  readonly chat: string
  readonly thread: string
}

/** Message ids of a header, without brackets. */
export function parseMessageIds(header: string): string[] {
  const ids = header
    .slice(0, 20_000)
    .split(/[\s<>,]+/)
    .filter((id) => id.includes('@') && id.length <= 998)
  return [...new Set(ids)]
}

/** The platform's id of a mail. */
export function idOfMessageId(messageId: string): string {
  return messageId.length <= ID_MAX ? messageId : `hash-${digest(messageId)}`
}

/** Of a mail without a message id; the same wherever the mail is moved to. */
export function idOfHeaders(headers: string): string {
  return `hash-${digest(headers)}`
}

/** By the id of the mail that began it. */
export function threadIdOf(root: string): string {
  return digest(root)
}

export function topicOf(thread: string): string {
  return thread.slice(0, 12)
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24)
}

export function referencesOfAnswer({ messageId, references }: MailRecord): string[] {
  const all = [...references.filter((id) => id !== messageId), ...(messageId === undefined ? [] : [messageId])]
  return all.length <= REFERENCES_MAX ? all : [...all.slice(0, 1), ...all.slice(1 - REFERENCES_MAX)]
}

export function subjectOfAnswer(subject: string): string {
  return /^(?:re|aw|antw|sv|vs|rif)\s?:/i.test(subject) ? subject : `Re: ${subject}`
}

/** Mails of which the cache still has what an answer needs. */
export class MailMemory {
  readonly #state: AdapterStore

  constructor(state: AdapterStore) {
    this.#state = state
  }

  remember(id: string, record: MailRecord): void {
    const references = record.references.filter((each) => each.length <= ID_MAX)
    const kept = references.length <= REFERENCES_MAX ? references : referencesOfAnswer({ ...record, references })
    this.#state.setCached(`mail ${id}`, JSON.stringify({ ...record, references: kept }))
    this.#state.setCached(`last ${record.chat} ${topicOf(record.thread)}`, id)
    this.#state.setCached(`last ${record.chat} `, id)
  }

  recall(id: string): MailRecord | undefined {
    const record = tryParseJson(this.#state.cached(`mail ${id}`) ?? '')
    // It is written above.
    return isObject(record) ? (record as unknown as MailRecord) : undefined
  }

  /** The last mail of a chat, or of a thread in it. */
  lastIn(chat: string, topic: string | undefined): MailRecord | undefined {
    const id = this.#state.cached(`last ${chat} ${topic ?? ''}`)
    return id === undefined ? undefined : this.recall(id)
  }
}
