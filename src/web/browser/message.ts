// One message in the log.
import { truncateText } from '../text/markdown.ts'
import { copyButton, element } from './nodes.ts'
import { renderProse } from './prose.ts'

/** A longer message shows its beginning until it is asked for. */
const SHOWN = { characters: 3_000, lines: 40 }

export interface MessageNodeOptions {
  readonly role: 'user' | 'assistant'
  /** Who wrote it, for those who do not see on which side it stands. */
  readonly who: string
  readonly content: string
  readonly createdAt: string
}

export function messageNode(about: MessageNodeOptions): HTMLElement {
  const { role, who, content, createdAt } = about
  const body = element('div', role === 'user' ? { class: 'text', dir: 'auto' } : { class: 'prose' })
  const render = (shown: string): void => {
    if (role === 'user') body.replaceChildren(shown)
    else body.replaceChildren(...renderProse(shown))
  }
  const node = element('article', { class: role === 'user' ? 'message user' : 'message agent' })
  node.append(element('span', { class: 'hidden' }, `${who}:`), body)
  const beginning = truncateText(content, SHOWN.characters, SHOWN.lines)
  // A few words more are not worth a button.
  if (content.length - beginning.length < 200) render(content)
  else {
    render(beginning)
    node.classList.add('cut')
    node.append(moreButton(content, () => render(content), node))
  }
  const foot = element('div', { class: 'foot' })
  if (role === 'assistant') foot.append(copyButton('Copy this message', () => content))
  const time = timeNode(createdAt)
  if (time) foot.append(time)
  node.append(foot)
  return node
}

function moreButton(content: string, showAll: () => void, node: HTMLElement): HTMLElement {
  const label = `Show all (${content.length.toLocaleString('en')} characters)`
  const button = element('button', { type: 'button', class: 'more' }, label)
  button.addEventListener('click', () => {
    showAll()
    node.classList.remove('cut')
    button.remove()
    node.tabIndex = -1
    node.focus({ preventScroll: true })
  })
  return button
}

function timeNode(createdAt: string): HTMLElement | undefined {
  const date = new Date(createdAt)
  if (Number.isNaN(date.getTime())) return undefined
  const today = date.toDateString() === new Date().toDateString()
  const shown = date.toLocaleString([], { ...(today ? {} : { dateStyle: 'medium' }), timeStyle: 'short' })
  return element('time', { datetime: createdAt, title: date.toLocaleString() }, shown)
}
