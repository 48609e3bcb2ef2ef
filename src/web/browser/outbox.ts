// Messages of this tab that the server has not acknowledged, and drafts. Stored, so that a reload neither loses nor repeats them.
import { hashLinkUrl, readStored, writeStored } from './stored.ts'

export interface UnsentMessage {
  /** The idempotency key, the same for every attempt. */
  readonly key: string
  readonly topic: string
  readonly content: string
  /** Set if its topic is a new branch: the message that it replaces, and the topic that the list shows. */
  readonly branch?: { readonly of: string; readonly root: string }
}

export class BrowserOutbox {
  readonly #prefix: string

  constructor(base: string) {
    this.#prefix = `svc-chat:${hashLinkUrl(base)}`
  }

  list(): UnsentMessage[] {
    try {
      const stored: unknown = JSON.parse(readStored('sessionStorage', `${this.#prefix}:unsent`) ?? '[]')
      return Array.isArray(stored) ? stored.filter(isUnsent) : []
    } catch {
      return []
    }
  }

  add(unsent: UnsentMessage): void {
    this.#save([...this.list(), unsent])
  }

  remove(key: string): void {
    this.#save(this.list().filter((unsent) => unsent.key !== key))
  }

  draft(topic: string): string {
    return readStored('sessionStorage', `${this.#prefix}:draft:${topic}`) ?? ''
  }

  saveDraft(topic: string, text: string): void {
    writeStored('sessionStorage', `${this.#prefix}:draft:${topic}`, text || undefined)
  }

  #save(unsent: readonly UnsentMessage[]): void {
    writeStored('sessionStorage', `${this.#prefix}:unsent`, unsent.length > 0 ? JSON.stringify(unsent) : undefined)
  }
}

function isUnsent(value: unknown): value is UnsentMessage {
  if (typeof value !== 'object' || value === null) return false
  return 'key' in value && 'topic' in value && 'content' in value && typeof value.content === 'string'
}
