// The topics that the server has, with search, for people who may rename and delete them. All others see only the list of their browser.
import type { BrowserLinkClient, ServerTopic } from './link.ts'
import { element, iconButton, iconNode } from './nodes.ts'

interface AllTopicsHandlers {
  onOpen(topic: ServerTopic): void
  onRename(topic: string, title: string): void
  onDelete(topic: string): void
  onError(error: unknown): void
}

const SEARCH_MS = 300

export class AllTopics {
  readonly node = element('section', { class: 'all-topics', 'aria-label': 'All topics', hidden: '' })
  readonly #link: BrowserLinkClient
  readonly #handlers: AllTopicsHandlers
  readonly #search = element('input', { type: 'search', placeholder: 'Search topics', 'aria-label': 'Search topics' })
  readonly #list = element('ul')
  readonly #more = element('button', { type: 'button', class: 'more', hidden: '' }, 'Show more')
  #next = ''
  /** Counts requests, so that the answer to an earlier one is ignored. */
  #request = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(link: BrowserLinkClient, handlers: AllTopicsHandlers) {
    this.#link = link
    this.#handlers = handlers
    this.node.append(element('h2', {}, 'All topics'), this.#search, this.#list, this.#more)
    this.#search.addEventListener('input', () => {
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => void this.refresh(), SEARCH_MS)
    })
    this.#more.addEventListener('click', () => void this.#load(this.#next))
  }

  refresh(): Promise<void> {
    return this.#load('')
  }

  async #load(before: string): Promise<void> {
    const request = ++this.#request
    const query = this.#search.value.trim()
    // Without the list the chat works as well.
    const found = await this.#link.topics(query, before).catch(() => undefined)
    if (!found || request !== this.#request) return
    if (query === '' && before === '') this.node.hidden = !found.topics.some(({ mayEdit }) => mayEdit)
    if (this.node.hidden) return this.#list.replaceChildren()
    const rows = found.topics.map((topic) => this.#row(topic))
    if (before === '') this.#list.replaceChildren(...rows)
    else this.#list.append(...rows)
    this.#next = found.next
    this.#more.hidden = found.next === ''
  }

  #row(topic: ServerTopic): HTMLElement {
    const title = topic.title || 'Untitled'
    const open = element('button', { type: 'button', class: 'topic', dir: 'auto' }, title)
    open.addEventListener('click', () => this.#handlers.onOpen(topic))
    const row = element('li', {}, open)
    if (!topic.mayEdit) return row
    const rename = iconButton(`Rename “${title}”`, iconNode('edit'), 'icon change')
    const remove = iconButton(`Delete “${title}”`, iconNode('bin'), 'icon change')
    rename.addEventListener('click', () => this.#rename(row, topic))
    remove.addEventListener('click', () => this.#confirm(row, topic))
    row.append(rename, remove)
    return row
  }

  #rename(row: HTMLElement, topic: ServerTopic): void {
    const input = element('input', {
      class: 'rename',
      'aria-label': 'Title of the topic',
      maxlength: '128',
      dir: 'auto',
    })
    input.value = topic.title
    const restore = (title: string): void => {
      const renewed = this.#row({ ...topic, title })
      row.replaceWith(renewed)
      renewed.querySelector('button')?.focus()
    }
    input.addEventListener('keydown', (event) => {
      if (event.isComposing) return
      if (event.key === 'Escape') {
        event.stopPropagation()
        restore(topic.title)
      } else if (event.key === 'Enter' && input.value.trim() !== '') {
        const title = input.value.trim()
        void this.#change(this.#link.renameTopic(topic.topic, title), () => {
          this.#handlers.onRename(topic.topic, title)
          restore(title)
        })
      }
    })
    row.replaceChildren(input)
    input.select()
  }

  #confirm(row: HTMLElement, topic: ServerTopic): void {
    const remove = element('button', { type: 'button', class: 'more' }, 'Delete')
    const keep = element('button', { type: 'button', class: 'more' }, 'Keep')
    keep.addEventListener('click', () => {
      const renewed = this.#row(topic)
      row.replaceWith(renewed)
      renewed.querySelector('button')?.focus()
    })
    remove.addEventListener('click', () => {
      void this.#change(this.#link.deleteTopic(topic.topic), () => {
        row.remove()
        this.#handlers.onDelete(topic.topic)
        this.#search.focus()
      })
    })
    const question = element('span', { dir: 'auto' }, `Delete “${topic.title}” with its messages?`)
    row.replaceChildren(element('div', { class: 'confirm', role: 'group' }, question, remove, keep))
    keep.focus()
  }

  async #change(change: Promise<void>, done: () => void): Promise<void> {
    try {
      await change
      done()
    } catch (error) {
      this.#handlers.onError(error)
    }
  }
}
