// What a tab has posted and the server has not acknowledged. It is kept, so that a reload neither loses nor doubles it.
import { hashLinkUrl, readStored, writeStored } from './stored.ts'

export interface UnsentMessage {
  /** The same at every try: the server takes it once. */
  readonly key: string
  readonly topic: string
  readonly content: string
}

export class BrowserOutbox {
  readonly #name: string

  constructor(base: string) {
    this.#name = `svc-chat:${hashLinkUrl(base)}`
  }

  list(): UnsentMessage[] {
    try {
      const kept: unknown = JSON.parse(readStored('sessionStorage', `${this.#name}:unsent`) ?? '[]')
      return Array.isArray(kept) ? kept.filter(isUnsent) : []
    } catch {
      return []
    }
  }

  add(unsent: UnsentMessage): void {
    this.#keep([...this.list(), unsent])
  }

  remove(key: string): void {
    this.#keep(this.list().filter((unsent) => unsent.key !== key))
  }

  /** What is being written in a topic. */
  draft(topic: string): string {
    return readStored('sessionStorage', `${this.#name}:draft:${topic}`) ?? ''
  }

  saveDraft(topic: string, text: string): void {
    writeStored('sessionStorage', `${this.#name}:draft:${topic}`, text || undefined)
  }

  #keep(unsent: readonly UnsentMessage[]): void {
    writeStored('sessionStorage', `${this.#name}:unsent`, unsent.length > 0 ? JSON.stringify(unsent) : undefined)
  }
}

function isUnsent(value: unknown): value is UnsentMessage {
  if (typeof value !== 'object' || value === null) return false
  return 'key' in value && 'topic' in value && 'content' in value && typeof value.content === 'string'
}
