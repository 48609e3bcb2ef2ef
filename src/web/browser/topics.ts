// The topics that a visitor has opened in this browser: separate conversations with the same agent. The list is only in the storage
// of the browser, and says which branch of each topic is shown. `all-topics.ts` lists what the server has. Random ids keep the topics
// of a new visitor from those of others, but hide nothing: anyone with a link that does not keep visitors apart may list all of them.
import { hashLinkUrl, randomId, readStored, writeStored } from './stored.ts'
import { uiText } from './texts.ts'

interface ChatTopic {
  readonly id: string
  readonly title: string
  /** The branch that is shown in place of the topic. */
  readonly branch?: string
  /** It has no message. */
  readonly isNew?: true
}

const TOPICS_MAX = 50
const TITLE_MAX = 48

export class TopicList {
  #key: string
  #current: ChatTopic
  /** The new topic, which may have a draft. */
  #new: ChatTopic
  #onChange: () => void

  constructor(base: string, onChange: () => void) {
    this.#key = `svc-chat:${hashLinkUrl(base)}`
    this.#onChange = onChange
    const [listed, tabTopic] = [this.list(), readTopic(readStored('sessionStorage', this.#key))]
    // A reloaded tab keeps its topic, which may be new or from the list of the server; a new tab opens the latest one.
    this.#current = listed.find(({ id }) => id === tabTopic?.id) ?? tabTopic ?? listed[0] ?? newTopic()
    this.#new = this.#current.isNew ? this.#current : newTopic()
    this.#saveCurrent()
    globalThis.addEventListener('storage', ({ key }) => {
      if (key === this.#key) this.#followOtherTab()
    })
  }

  /** The latest first. */
  list(): ChatTopic[] {
    try {
      const stored: unknown = JSON.parse(readStored('localStorage', this.#key) ?? '[]')
      return Array.isArray(stored) ? stored.filter(isTopic) : []
    } catch {
      return []
    }
  }

  /** The topic that messages are read from and sent to. */
  get shown(): string {
    return this.#current.branch ?? this.#current.id
  }

  get current(): ChatTopic {
    return this.#current
  }

  select(id: string): void {
    const found = this.list().find((topic) => topic.id === id)
    if (found) this.#setCurrent(found)
  }

  /** The list contains a topic only after its first message. */
  start(): void {
    this.#setCurrent(this.#new)
  }

  /** Moves the current topic to the front; its first message becomes its title. */
  touchCurrent(text: string): void {
    const [first = ''] = text.trim().split('\n')
    const title = this.#current.title || [...first].slice(0, TITLE_MAX).join('') || uiText('newTopic')
    const { id, branch } = this.#current
    this.#current = { id, title, ...(branch ? { branch } : {}) }
    if (this.#new.id === id) this.#new = newTopic()
    this.#saveCurrent()
    const others = this.list().filter((topic) => topic.id !== id)
    this.#save([this.#current, ...others].slice(0, TOPICS_MAX))
  }

  /** Opens a topic of the server. The list contains it after the next message. */
  open(topic: ChatTopic): void {
    this.#setCurrent(this.list().find(({ id }) => id === topic.id) ?? topic)
  }

  rename(id: string, title: string): void {
    if (this.#current.id === id) this.#current = { ...this.#current, title }
    this.#saveCurrent()
    this.#save(this.list().map((topic) => (topic.id === id ? { ...topic, title } : topic)))
  }

  /** Shows a branch of a topic, or the topic itself. */
  showBranch(id: string, branch: string): void {
    const listed = this.list()
    const known = listed.find((topic) => topic.id === id) ?? (this.#current.id === id ? this.#current : undefined)
    if (!known) return
    const topic = { id, title: known.title, ...(branch === id ? {} : { branch }) }
    if (this.#current.id === id) this.#current = topic
    this.#saveCurrent()
    this.#save(listed.map((each) => (each.id === id ? topic : each)))
  }

  /** Removes it from this list only; the server keeps its messages. */
  remove(id: string): void {
    this.#save(this.list().filter((topic) => topic.id !== id))
    if (id === this.#current.id) this.#setCurrent(this.list()[0] ?? this.#new)
  }

  /** Takes a new title, but stays in the branch that this tab shows. */
  #followOtherTab(): void {
    const title = this.list().find(({ id }) => id === this.#current.id)?.title
    if (title !== undefined) this.#current = { ...this.#current, title }
    this.#onChange()
  }

  #setCurrent(topic: ChatTopic): void {
    this.#current = topic
    this.#saveCurrent()
    this.#onChange()
  }

  #save(topics: readonly ChatTopic[]): void {
    writeStored('localStorage', this.#key, JSON.stringify(topics))
    this.#onChange()
  }

  #saveCurrent(): void {
    writeStored('sessionStorage', this.#key, JSON.stringify(this.#current))
  }
}

function newTopic(): ChatTopic {
  return { id: randomId(), title: '', isNew: true }
}

function readTopic(stored: string | undefined): ChatTopic | undefined {
  try {
    const topic: unknown = JSON.parse(stored ?? '')
    return isTopic(topic) ? topic : undefined
  } catch {
    return undefined
  }
}

function isTopic(value: unknown): value is ChatTopic {
  if (typeof value !== 'object' || value === null || !('id' in value) || !('title' in value)) return false
  return typeof value.id === 'string' && value.id !== '' && typeof value.title === 'string'
}
