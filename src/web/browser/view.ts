// The parts of the chat that stay: head, topics, log, notice and composer. What they do is in chat.ts.
import { element, iconButton, iconNode } from './nodes.ts'

export interface ChatView {
  readonly app: HTMLElement
  /** All but the topics. */
  readonly column: HTMLElement
  readonly head: HTMLElement
  readonly nav: HTMLElement
  readonly topicsToggle: HTMLButtonElement
  readonly backdrop: HTMLElement
  readonly newTopicButtons: readonly HTMLButtonElement[]
  readonly topics: HTMLElement
  /** Scrolls. */
  readonly log: HTMLElement
  readonly welcome: HTMLElement
  readonly latestButton: HTMLButtonElement
  /** What hinders, in a sentence. */
  readonly notice: HTMLElement
  readonly form: HTMLFormElement
  readonly input: HTMLTextAreaElement
  readonly send: HTMLButtonElement
}

export interface ChatViewOptions {
  readonly name: string
  readonly folder: string
  /** Tells its ids from those of another chat on the same page. */
  readonly id: string
}

export function createChatView({ name, folder, id }: ChatViewOptions): ChatView {
  const nav = element('nav', { class: 'nav', id: `${id}-topics`, 'aria-label': 'Topics' })
  const topics = element('ul')
  const inNav = element(
    'button',
    { type: 'button', class: 'fresh' },
    iconNode('plus'),
    element('span', {}, 'New topic'),
  )
  nav.append(element('h2', {}, 'Topics'), inNav, topics)

  const toggle = iconButton('Topics', iconNode('topics'), 'icon toggle')
  toggle.setAttribute('aria-controls', nav.id)
  toggle.setAttribute('aria-expanded', 'false')
  const inHead = iconButton('New topic', iconNode('plus'), 'icon start')
  const title = element('div', { class: 'title' }, element('h1', { dir: 'auto' }, name))
  if (folder && folder !== name) title.append(element('p', { dir: 'auto' }, folder))
  const head = element('header', { class: 'head' }, toggle, avatarNode(name), title, inHead)

  const welcome = element('div', { class: 'welcome' }, avatarNode(name))
  welcome.append(element('p', { class: 'lead', dir: 'auto' }, `Write to ${name}`))
  welcome.append(
    element('p', {}, 'Your messages and the answers stay in this topic. You can close the page and come back.'),
  )
  const log = element('div', {
    class: 'log',
    role: 'log',
    'aria-live': 'polite',
    'aria-label': 'Messages',
    tabindex: '0',
  })
  // Headings in messages begin below it.
  const heading = element('h2', { class: 'hidden' }, 'Messages')
  const latest = element(
    'button',
    { type: 'button', class: 'latest', hidden: '' },
    iconNode('down'),
    element('span', {}, 'Latest'),
  )

  // What is read out must stand there before it has words.
  const notice = element('div', { class: 'notice', hidden: '' })
  const region = element('div', { role: 'status' }, notice)
  const input = element('textarea', {
    id: `${id}-input`,
    name: 'content',
    rows: '1',
    dir: 'auto',
    placeholder: 'Write a message',
    autocomplete: 'off',
    enterkeyhint: 'send',
    'aria-describedby': `${id}-keys`,
  })
  const send = element(
    'button',
    { type: 'submit', class: 'send', 'aria-label': 'Send', title: 'Send' },
    iconNode('send'),
  )
  const label = element('label', { class: 'hidden', for: input.id }, `Message ${name}`)
  const keys = element('span', { class: 'keys', id: `${id}-keys` }, 'Enter sends, Shift and Enter breaks the line')
  const form = element('form', { class: 'composer' }, label, element('div', { class: 'box' }, input, send), keys)

  const main = element('main', { class: 'main' }, heading, log, element('div', { class: 'dock' }, latest, region, form))
  const shade = element('div', { class: 'shade' })
  const column = element('div', { class: 'column' }, head, main)
  const app = element('div', { class: 'chat' }, nav, shade, column)
  return {
    app,
    column,
    head,
    nav,
    topicsToggle: toggle,
    backdrop: shade,
    newTopicButtons: [inNav, inHead],
    topics,
    log,
    welcome,
    latestButton: latest,
    notice,
    form,
    input,
    send,
  }
}

export function avatarNode(name: string): HTMLElement {
  return element('span', { class: 'face', 'aria-hidden': 'true' }, [...name.trim()][0]?.toUpperCase() ?? '?')
}
