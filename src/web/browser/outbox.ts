// Messages of this tab that the server has not acknowledged, and drafts. Stored, so that a reload neither loses nor repeats them.
import type { FrameFile } from './files.ts'
import { hashLinkUrl, randomId, readStored, writeStored } from './stored.ts'

export interface UnsentMessage {
  /** The idempotency key, the same for every attempt. */
  readonly key: string
  readonly topic: string
  /** The topic that the list shows; `topic` is this one or a branch of it. */
  readonly root: string
  readonly content: string
  /** The latest event that the page showed before. */
  readonly after: number
  /** Set if its topic is a new branch. */
  readonly branch?: {
    /** The message that it replaces, and the topic in which that was shown. */
    readonly of: string
    readonly from: string
    /** Whether the visitor has written its text. */
    readonly isEdit: boolean
  }
  /** What the site says about the visitor. */
  readonly metadata?: unknown
  /** Their contents are only in the memory of this page. */
  readonly files?: readonly FrameFile[]
}

export class BrowserOutbox {
  readonly #prefix: string
  /** Files of unsent messages, by key. */
  readonly #files = new Map<string, readonly FrameFile[]>()
  /** The part of the draft of a topic that consists of messages which were not sent. */
  readonly #restored = new Map<string, string>()

  constructor(base: string) {
    this.#prefix = `svc-chat:${hashLinkUrl(base)}`
  }

  list(): UnsentMessage[] {
    try {
      const stored: unknown = JSON.parse(readStored('sessionStorage', `${this.#prefix}:unsent`) ?? '[]')
      const unsent = Array.isArray(stored) ? stored.filter(isUnsent) : []
      return unsent.map((message) => ({
        ...message,
        // An earlier version of this page did not write these two.
        root: message.root ?? message.topic,
        after: message.after ?? 0,
        files: this.#files.get(message.key) ?? message.files ?? [],
      }))
    } catch {
      return []
    }
  }

  add(unsent: UnsentMessage): void {
    if (unsent.files) this.#files.set(unsent.key, unsent.files)
    this.#save([...this.list(), unsent])
  }

  remove(key: string): void {
    this.#files.delete(key)
    this.#save(this.list().filter((unsent) => unsent.key !== key))
  }

  /** By the topic that the list shows, so that a branch of it has the same draft. */
  draft(root: string): string {
    return readStored('sessionStorage', `${this.#prefix}:draft:${root}`) ?? ''
  }

  saveDraft(root: string, text: string): void {
    if (text === '') this.#restored.delete(root)
    writeStored('sessionStorage', `${this.#prefix}:draft:${root}`, text || undefined)
  }

  /** Puts the text of a message that was not sent into the draft: behind earlier ones, before what was typed since. */
  restore(root: string, content: string): void {
    const draft = this.draft(root)
    const earlier = this.#restored.get(root) ?? ''
    const isKept = draft.startsWith(earlier)
    const restored = joinTexts(isKept ? earlier : '', content)
    this.saveDraft(root, joinTexts(restored, isKept ? draft.slice(earlier.length).replace(/^\n/, '') : draft))
    this.#restored.set(root, restored)
  }

  /** The server may have saved a message that came back into the composer. Remembers its key for the case that it is sent again. */
  keepKey(unsent: UnsentMessage): void {
    writeStored('sessionStorage', `${this.#prefix}:key:${unsent.topic}`, `${unsent.key} ${describeMessage(unsent)}`)
  }

  /** The key for a new message: the remembered one if that message is the same. */
  takeKey(message: Pick<UnsentMessage, 'topic' | 'content' | 'files'>): string {
    const name = `${this.#prefix}:key:${message.topic}`
    const kept = readStored('sessionStorage', name)
    if (kept === undefined) return randomId()
    writeStored('sessionStorage', name, undefined)
    const end = kept.indexOf(' ')
    return kept.slice(end + 1) === describeMessage(message) ? kept.slice(0, end) : randomId()
  }

  #save(unsent: readonly UnsentMessage[]): void {
    const stored = unsent.length > 0 ? JSON.stringify(unsent, withoutBlobs) : undefined
    writeStored('sessionStorage', `${this.#prefix}:unsent`, stored)
  }
}

/** Whether the page that had the files of a message is gone. */
export function hasLostFiles({ files = [] }: UnsentMessage): boolean {
  return files.some(({ blob }) => !blob)
}

function describeMessage({ content, files = [] }: Pick<UnsentMessage, 'content' | 'files'>): string {
  return JSON.stringify([content, files.map(({ name, size }) => [name, size])])
}

function joinTexts(...texts: readonly string[]): string {
  return texts.filter(Boolean).join('\n')
}

function withoutBlobs(name: string, value: unknown): unknown {
  return name === 'blob' ? undefined : value
}

function isUnsent(value: unknown): value is UnsentMessage {
  if (typeof value !== 'object' || value === null) return false
  return 'key' in value && 'topic' in value && 'content' in value && typeof value.content === 'string'
}
