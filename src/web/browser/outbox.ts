// Messages of this tab that the server has not acknowledged, and drafts. Stored, so that a reload neither loses nor repeats them.
import type { FrameFile } from './files.ts'
import { hashLinkUrl, readStored, writeStored } from './stored.ts'

export interface UnsentMessage {
  /** The idempotency key, the same for every attempt. */
  readonly key: string
  readonly topic: string
  readonly content: string
  /** Set if its topic is a new branch: the message that it replaces, and the topic that the list shows. */
  readonly branch?: { readonly of: string; readonly root: string }
  /** Their contents are only in the memory of this page. */
  readonly files?: readonly FrameFile[]
}

export class BrowserOutbox {
  readonly #prefix: string
  /** Files of unsent messages, by key. */
  readonly #files = new Map<string, readonly FrameFile[]>()

  constructor(base: string) {
    this.#prefix = `svc-chat:${hashLinkUrl(base)}`
  }

  list(): UnsentMessage[] {
    try {
      const stored: unknown = JSON.parse(readStored('sessionStorage', `${this.#prefix}:unsent`) ?? '[]')
      const unsent = Array.isArray(stored) ? stored.filter(isUnsent) : []
      return unsent.map((message) => ({ ...message, files: this.#files.get(message.key) ?? message.files ?? [] }))
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

  draft(topic: string): string {
    return readStored('sessionStorage', `${this.#prefix}:draft:${topic}`) ?? ''
  }

  saveDraft(topic: string, text: string): void {
    writeStored('sessionStorage', `${this.#prefix}:draft:${topic}`, text || undefined)
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

function withoutBlobs(name: string, value: unknown): unknown {
  return name === 'blob' ? undefined : value
}

function isUnsent(value: unknown): value is UnsentMessage {
  if (typeof value !== 'object' || value === null) return false
  return 'key' in value && 'topic' in value && 'content' in value && typeof value.content === 'string'
}
