// Creates the fixed elements of the chat: header, topics, log, notice and composer. `chat.ts` adds their behaviour.
import { type AgentProfile, initialsOf, partsOfColour, readableOn } from '../text/agent-profile.ts'
import { iconNode } from './icons.ts'
import { linkUrl } from './link.ts'
import { element, iconButton, svgNode } from './nodes.ts'
import { uiText } from './texts.ts'

export interface ChatView {
  readonly app: HTMLElement
  /** Everything except the topics. */
  readonly column: HTMLElement
  readonly head: HTMLElement
  readonly nav: HTMLElement
  readonly topicsToggle: HTMLButtonElement
  readonly backdrop: HTMLElement
  readonly newTopicButtons: readonly HTMLButtonElement[]
  readonly topics: HTMLElement
  readonly log: HTMLElement
  readonly welcome: HTMLElement
  readonly starterButtons: readonly HTMLButtonElement[]
  readonly latestButton: HTMLButtonElement
  readonly notice: HTMLElement
  readonly form: HTMLFormElement
  /** Around the input and its buttons. */
  readonly box: HTMLElement
  readonly input: HTMLTextAreaElement
  readonly send: HTMLButtonElement
}

interface ChatViewOptions {
  readonly agent: AgentProfile
  /** The URL of the link, with a trailing slash. */
  readonly base: string
  readonly folder: string
  /** Prefix of element ids; another chat on the page has its own. */
  readonly id: string
}

export function createChatView({ agent, base, folder, id }: ChatViewOptions): ChatView {
  const { name, greeting, starters = [] } = agent
  const nav = element('nav', { class: 'nav', id: `${id}-topics`, 'aria-label': uiText('topics') })
  const topics = element('ul')
  const navButton = element('button', { type: 'button', class: 'new-topic' }, iconNode('plus'))
  navButton.append(element('span', {}, uiText('newTopic')))
  nav.append(element('h2', {}, uiText('topics')), navButton, topics)

  const topicsToggle = iconButton(uiText('topics'), iconNode('topics'), 'icon toggle')
  topicsToggle.setAttribute('aria-controls', nav.id)
  topicsToggle.setAttribute('aria-expanded', 'false')
  const headButton = iconButton(uiText('newTopic'), iconNode('plus'), 'icon start')
  const title = element('div', { class: 'title' }, element('h1', { dir: 'auto' }, name))
  if (folder && folder !== name) title.append(element('p', { dir: 'auto' }, folder))
  const head = element('header', { class: 'head' }, topicsToggle, avatarNode(agent, base), title, headButton)

  const welcome = element('div', { class: 'welcome' }, avatarNode(agent, base))
  welcome.append(
    element('p', { class: 'lead', dir: 'auto' }, greeting === undefined ? uiText('writeTo', { name }) : name),
  )
  if (greeting !== undefined) welcome.append(element('p', { class: 'greeting', dir: 'auto' }, greeting))
  const starterButtons = starters.map((text) => element('button', { type: 'button', dir: 'auto' }, text))
  const starterItems = starterButtons.map((button) => element('li', {}, button))
  if (starterItems.length > 0)
    welcome.append(element('ul', { class: 'starters', 'aria-label': uiText('suggestions') }, ...starterItems))
  // The site of a widget may have the other direction.
  welcome.append(element('p', { dir: 'auto' }, uiText('welcome')))
  const log = element('div', {
    class: 'log',
    role: 'log',
    'aria-live': 'polite',
    'aria-label': uiText('messages'),
    tabindex: '0',
  })
  // Headings in messages are below this one.
  const heading = element('h2', { class: 'hidden' }, uiText('messages'))
  const latestButton = element('button', { type: 'button', class: 'latest', hidden: '' }, iconNode('down'))
  latestButton.append(element('span', {}, uiText('latest')))

  // Screen readers announce changes only in a region that already exists.
  const notice = element('div', { class: 'notice', hidden: '' })
  const region = element('div', { role: 'status' }, notice)
  const input = element('textarea', {
    id: `${id}-input`,
    name: 'content',
    rows: '1',
    dir: 'auto',
    placeholder: uiText('writeMessage'),
    autocomplete: 'off',
    enterkeyhint: 'send',
    'aria-describedby': `${id}-keys`,
  })
  const send = element(
    'button',
    { type: 'submit', class: 'send', 'aria-label': uiText('send'), title: uiText('send') },
    iconNode('send'),
  )
  const box = element('div', { class: 'box' }, input, send)
  const label = element('label', { class: 'hidden', for: input.id }, uiText('messageTo', { name }))
  const keys = element('span', { class: 'keys', id: `${id}-keys`, dir: 'auto' }, uiText('keys'))
  const form = element('form', { class: 'composer' }, label, box, keys)

  const main = element(
    'main',
    { class: 'main' },
    heading,
    log,
    element('div', { class: 'dock' }, latestButton, region, form),
  )
  const backdrop = element('div', { class: 'backdrop' })
  const column = element('div', { class: 'column', 'data-drop': uiText('dropFiles') }, head, main)
  const app = element('div', { class: 'chat' }, nav, backdrop, column)
  return {
    app,
    column,
    head,
    nav,
    topicsToggle,
    backdrop,
    newTopicButtons: [navButton, headButton],
    topics,
    log,
    welcome,
    starterButtons,
    latestButton,
    notice,
    form,
    box,
    input,
    send,
  }
}

/** The picture hides the initials once it is loaded. */
function avatarNode({ name, tint, picture }: AgentProfile, base: string): HTMLElement {
  const back = svgNode('rect', { width: '34', height: '34', fill: tint })
  const ink = readableOn(partsOfColour(tint))
  const initials = svgNode('text', { x: '17', y: '22.5', fill: ink }, initialsOf(name))
  const avatar = element('span', { class: 'avatar', 'aria-hidden': 'true' })
  avatar.append(svgNode('svg', { viewBox: '0 0 34 34' }, back, initials))
  if (picture === undefined) return avatar
  const image = element('img', { src: linkUrl(base, picture), alt: '', referrerpolicy: 'no-referrer' })
  image.addEventListener('error', () => image.remove())
  avatar.append(image)
  return avatar
}
