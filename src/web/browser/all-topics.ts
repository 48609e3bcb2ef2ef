// The topics that the server has, with search, for people who may rename and delete them. All others see only the list of their browser.

import { iconNode } from './icons.ts'
import type { BrowserLinkClient, ServerTopic } from './link.ts'
import { element, iconButton } from './nodes.ts'
import { uiText } from './texts.ts'

interface AllTopicsHandlers {
  onOpen(topic: ServerTopic): void
  onRename(topic: string, title: string): void
  onDelete(topic: string): void
  /** A sentence on why a topic was not changed. */
  describe(error: unknown): string
}

const SEARCH_MS = 300

export class AllTopics {
  readonly node = element('section', { class: 'all-topics', 'aria-label': uiText('allTopics'), hidden: '' })
  readonly #link: BrowserLinkClient
  readonly #handlers: AllTopicsHandlers
  readonly #search = element('input', {
    type: 'search',
    placeholder: uiText('searchTopics'),
    'aria-label': uiText('searchTopics'),
  })
  // The notice of the chat may be behind the topics.
  readonly #problem = element('p', { class: 'topics-note', role: 'status', dir: 'auto' })
  readonly #list = element('ul')
  readonly #more = element('button', { type: 'button', class: 'more', hidden: '' }, uiText('showMore'))
  /** Topics that a list of the server had. */
  readonly #known = new Set<string>()
  #next = ''
  /** Counts requests, so that the answer to an earlier one is ignored. */
  #request = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(link: BrowserLinkClient, handlers: AllTopicsHandlers) {
    this.#link = link
    this.#handlers = handlers
    this.node.append(element('h2', {}, uiText('allTopics')), this.#search, this.#problem, this.#list, this.#more)
    this.#search.addEventListener('input', () => {
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => void this.refresh(), SEARCH_MS)
    })
    this.#search.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.isComposing || this.#search.value === '') return
      // Only ends the search. Not all browsers do.
      event.stopPropagation()
      event.preventDefault()
      this.#search.value = ''
      void this.refresh()
    })
    this.#more.addEventListener('click', () => void this.#load(this.#next))
  }

  refresh(): Promise<void> {
    return this.#load('')
  }

  /** Called when the server has a message of this topic, which may be new. */
  async refreshFor(topic: string): Promise<void> {
    if (!this.#known.has(topic)) await this.refresh()
    this.#known.add(topic)
  }

  async #load(before: string): Promise<void> {
    const request = ++this.#request
    const query = this.#search.value.trim()
    // Without the list the chat works as well.
    const found = await this.#link.topics(query, before).catch(() => undefined)
    if (!found || request !== this.#request) return
    for (const { topic } of found.topics) this.#known.add(topic)
    if (query === '' && found.topics.some(({ mayEdit }) => mayEdit)) this.node.hidden = false
    if (this.node.hidden) return
    // The visitor is renaming or deleting a topic, after which the list is loaded again.
    if (before === '' && this.#list.querySelector('form')) return
    this.#problem.textContent = query !== '' && found.topics.length === 0 ? uiText('noTopicFound') : ''
    this.#show(found.topics, before === '')
    this.#next = found.next
    this.#more.hidden = found.next === ''
  }

  #show(topics: readonly ServerTopic[], isStart: boolean): void {
    const focused = this.#list.querySelector<HTMLElement>('button:focus')
    const row = focused?.closest('li')
    const at = focused ? [...(row?.children ?? [])].indexOf(focused) : -1
    const rows = topics.map((topic) => this.#row(topic))
    if (isStart) this.#list.replaceChildren(...rows)
    else this.#list.append(...rows)
    if (!row || !isStart) return
    const renewed = rows.find(({ dataset }) => dataset.topic === row.dataset.topic)
    focusNode(renewed?.children[at] ?? this.#search)
  }

  #row(topic: ServerTopic): HTMLElement {
    const title = titleOf(topic)
    const open = element('button', { type: 'button', class: 'topic', dir: 'auto' }, title)
    open.addEventListener('click', () => this.#handlers.onOpen(topic))
    const row = element('li', { 'data-topic': topic.topic }, open)
    if (!topic.mayEdit) return row
    const rename = iconButton(uiText('renameTopic', { title }), iconNode('edit'), 'icon change')
    const remove = iconButton(uiText('deleteTopic', { title }), iconNode('bin'), 'icon change')
    rename.addEventListener('click', () => this.#rename(row, topic))
    remove.addEventListener('click', () => this.#confirm(row, topic))
    row.append(rename, remove)
    return row
  }

  #rename(row: HTMLElement, topic: ServerTopic): void {
    const attributes = { class: 'rename', 'aria-label': uiText('topicTitle'), maxlength: '128', dir: 'auto' }
    const input = element('input', { ...attributes, required: '' })
    input.value = topic.title
    const cancel = (): void => focusNode(this.#restore(row, topic).children[1])
    const form = this.#openForm(row, [input, uiText('save'), uiText('cancel')], cancel, async () => {
      const title = input.value.trim()
      if (title === '') return
      await this.#link.renameTopic(topic.topic, title)
      this.#handlers.onRename(topic.topic, title)
      focusNode(this.#restore(row, { ...topic, title }).children[1])
    })
    form.setAttribute('aria-label', uiText('renameTopic', { title: titleOf(topic) }))
    input.select()
  }

  #confirm(row: HTMLElement, topic: ServerTopic): void {
    const question = uiText('deleteQuestion', { title: titleOf(topic) })
    const cancel = (): void => focusNode(this.#restore(row, topic).children[2])
    const form = this.#openForm(
      row,
      [element('span', { dir: 'auto' }, question), uiText('delete'), uiText('keep')],
      cancel,
      async () => {
        await this.#link.deleteTopic(topic.topic)
        this.#known.delete(topic.topic)
        const next = row.nextElementSibling ?? row.previousElementSibling
        row.remove()
        this.#handlers.onDelete(topic.topic)
        focusNode(next?.firstElementChild ?? this.#search)
      },
    )
    form.setAttribute('aria-label', question)
    focusNode(form.lastElementChild)
  }

  #restore(row: HTMLElement, topic: ServerTopic): HTMLElement {
    const renewed = this.#row(topic)
    row.replaceWith(renewed)
    return renewed
  }

  /** Shows a form in the place of a row: a node, then a button that changes the topic and one that does not. */
  #openForm(
    row: HTMLElement,
    [node, yes, no]: readonly [Node, string, string],
    cancel: () => void,
    change: () => Promise<void>,
  ): HTMLElement {
    const submit = element('button', { type: 'submit', class: 'more' }, yes)
    const leave = element('button', { type: 'button', class: 'more' }, no)
    const form = element('form', { class: 'confirm', role: 'group' }, node, submit, leave)
    let isChanging = false
    leave.addEventListener('click', cancel)
    form.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.isComposing) return
      // Not for the panel of a widget, nor to stop an answer.
      event.stopPropagation()
      cancel()
    })
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      if (isChanging) return
      isChanging = true
      void this.#change(change).finally(() => {
        isChanging = false
      })
    })
    row.replaceChildren(form)
    return form
  }

  async #change(change: () => Promise<void>): Promise<void> {
    this.#problem.textContent = ''
    try {
      await change()
      await this.refresh()
    } catch (error) {
      this.#problem.textContent = this.#handlers.describe(error)
    }
  }
}

function titleOf({ title }: ServerTopic): string {
  return title || uiText('untitled')
}

function focusNode(node: Element | null | undefined): void {
  if (node instanceof HTMLElement) node.focus()
}
