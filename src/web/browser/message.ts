// One message in the log.
import { truncateText } from '../../lib/text/markdown.ts'
import { copyButton } from './copy.ts'
import { element } from './nodes.ts'
import { renderProse } from './prose.ts'
import { uiLocale, uiText } from './texts.ts'

/** A longer message is truncated until the visitor asks for all of it. */
const PREVIEW = { characters: 3_000, lines: 40 }

interface MessageNodeOptions {
  readonly role: 'user' | 'assistant'
  /** The author, for screen readers. */
  readonly who: string
  readonly content: string
  readonly createdAt: string
  /** Whether it is shown in full length. */
  readonly isWhole?: boolean
  /** Whether it is the start of an answer that was stopped. */
  readonly isPartial?: boolean
  /** Its files, below the text. */
  readonly files?: readonly Node[]
}

export function messageNode(options: MessageNodeOptions): HTMLElement {
  const { role, who, content, createdAt, isWhole = false, isPartial = false, files = [] } = options
  const body = element('div', role === 'user' ? { class: 'text', dir: 'auto' } : { class: 'prose' })
  const render = (text: string): void => body.replaceChildren(...(role === 'user' ? [text] : renderProse(text)))
  const node = element('article', { class: role === 'user' ? 'message user' : 'message agent' })
  node.append(element('span', { class: 'hidden' }, `${who}:`))
  // A message may consist of files.
  if (content !== '' || files.length === 0) node.append(body)
  const preview = truncateText(content, PREVIEW.characters, PREVIEW.lines)
  // A button is not worth it for a few more words.
  if (isWhole || content.length - preview.length < 200) render(content)
  else {
    render(preview)
    node.classList.add('cut')
    node.append(moreButton(content, () => render(content), node))
  }
  node.append(...files)
  const foot = element('div', { class: 'foot' })
  if (role === 'assistant' && content !== '') foot.append(copyButton(uiText('copyMessage'), () => content))
  const time = timeNode(createdAt)
  if (time) foot.append(time)
  if (isPartial) foot.append(element('span', {}, uiText('stopped')))
  node.append(foot)
  return node
}

function moreButton(content: string, showAll: () => void, node: HTMLElement): HTMLElement {
  const label = uiText('showAll', { count: content.length.toLocaleString(uiLocale()) })
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
  const shown = date.toLocaleString(uiLocale(), { ...(today ? {} : { dateStyle: 'medium' }), timeStyle: 'short' })
  return element('time', { datetime: createdAt, title: date.toLocaleString(uiLocale()) }, shown)
}
