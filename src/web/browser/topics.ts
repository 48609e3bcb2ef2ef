// The topics of a visitor: conversations with the same agent, each by itself. The list is kept in this browser only; a
// topic's name is random, so that who holds the link does not thereby know what others talk about.
import { hashLinkUrl, randomId, readStored, writeStored } from './stored.ts'

export interface ChatTopic {
  readonly id: string
  readonly title: string
}

const TOPICS_MAX = 50
const TITLE_MAX = 48

export class TopicList {
  #key: string
  #current: ChatTopic
  #onChange: () => void

  constructor(base: string, onChange: () => void) {
    this.#key = `svc-chat:${hashLinkUrl(base)}`
    this.#onChange = onChange
    const [listed, here] = [this.list(), readStored('sessionStorage', this.#key)]
    // A new tab goes on where the visitor was last; a tab that is loaded again stays where it was.
    this.#current = listed.find(({ id }) => id === here) ?? listed[0] ?? this.#fresh(here)
    this.#keepPlace()
    globalThis.addEventListener('storage', ({ key }) => {
      if (key === this.#key) this.#onChange()
    })
  }

  /** The one last written to comes first. */
  list(): ChatTopic[] {
    try {
      const kept: unknown = JSON.parse(readStored('localStorage', this.#key) ?? '[]')
      return Array.isArray(kept) ? kept.filter(isTopic) : []
    } catch {
      return []
    }
  }

  get current(): ChatTopic {
    return this.#current
  }

  select(id: string): void {
    const found = this.list().find((topic) => topic.id === id)
    if (found) this.#become(found)
  }

  /** A topic is listed from its first message on. */
  start(): void {
    this.#become(this.#fresh())
  }

  /** The current topic was written to. */
  touchCurrent(text: string): void {
    const [first = ''] = text.trim().split('\n')
    const title = this.#current.title || [...first].slice(0, TITLE_MAX).join('') || 'New topic'
    this.#current = { ...this.#current, title }
    const others = this.list().filter(({ id }) => id !== this.#current.id)
    this.#keep([this.#current, ...others].slice(0, TOPICS_MAX))
  }

  /** Takes it off the list here; nothing is deleted where the agent is. */
  remove(id: string): void {
    this.#keep(this.list().filter((topic) => topic.id !== id))
    if (id === this.#current.id) this.#become(this.list()[0] ?? this.#fresh())
  }

  #fresh(id: string = randomId()): ChatTopic {
    return { id, title: '' }
  }

  #become(topic: ChatTopic): void {
    this.#current = topic
    this.#keepPlace()
    this.#onChange()
  }

  #keep(topics: readonly ChatTopic[]): void {
    writeStored('localStorage', this.#key, JSON.stringify(topics))
    this.#onChange()
  }

  #keepPlace(): void {
    writeStored('sessionStorage', this.#key, this.#current.id)
  }
}

function isTopic(value: unknown): value is ChatTopic {
  if (typeof value !== 'object' || value === null || !('id' in value) || !('title' in value)) return false
  return typeof value.id === 'string' && value.id !== '' && typeof value.title === 'string'
}
