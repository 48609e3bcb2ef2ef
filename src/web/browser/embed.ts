// The chat in a page of another site: a button, and a panel that it opens. It stands in a shadow tree, so that neither
// side's styles reach the other, and its style is a sheet that no policy of the site has to allow.
import { ChatApp } from './chat.ts'
import { element, iconButton, iconNode } from './nodes.ts'

/** Given to the script by whoever serves it. */
declare const NAME: string
declare const STYLE: string

// Later there is no current script any more.
const own = document.currentScript
if (own instanceof HTMLScriptElement) whenReady(() => startEmbed(own))

function whenReady(start: () => void): void {
  if (document.body) start()
  else document.addEventListener('DOMContentLoaded', start, { once: true })
}

function startEmbed({ src, dataset }: HTMLScriptElement): void {
  const base = new URL('./', src).href
  const others = [...document.querySelectorAll<HTMLElement>('svc-chat')]
  const side = dataset.position === 'left' ? 'left' : 'right'
  // The same link twice is one button; another link gets its place above.
  if (others.some((other) => Reflect.get(other, 'link') === base)) return
  const host = document.createElement('svc-chat')
  Reflect.set(host, 'link', base)
  host.dataset.side = side
  if (dataset.theme === 'light' || dataset.theme === 'dark') host.dataset.theme = dataset.theme
  const level = others.filter((other) => other.dataset.side === side).length

  const label = dataset.label || 'Chat'
  const button = element('button', { type: 'button', class: 'launcher', 'aria-expanded': 'false' }, iconNode('bubble'))
  button.append(element('span', { class: 'label' }, label), element('span', { class: 'hidden unread' }))
  const panel = element('div', {
    class: 'panel',
    role: 'dialog',
    'aria-modal': 'true',
    'aria-label': label,
    hidden: '',
  })
  const frame = element('div', { class: `frame ${side}` }, panel, button)
  frame.style.setProperty('--level', String(level))
  paint(frame, dataset.colour ?? dataset.color)

  const sheet = new CSSStyleSheet()
  sheet.replaceSync(STYLE)
  const root = host.attachShadow({ mode: 'open' })
  root.adoptedStyleSheets = [sheet]
  root.append(frame)
  document.body.append(host)

  let chat: ChatApp | undefined
  const setUnread = (unread: boolean): void => {
    button.classList.toggle('has-unread', unread)
    const words = button.querySelector('.unread')
    if (words) words.textContent = unread ? ' (new message)' : ''
  }
  const close = iconButton('Close', iconNode('close'), 'icon close')
  const show = (open: boolean): void => {
    if (open === !panel.hidden) return
    panel.hidden = !open
    button.setAttribute('aria-expanded', String(open))
    if (open) {
      setUnread(false)
      document.dispatchEvent(new CustomEvent('svc-chat-open', { detail: base }))
      // Nobody who does not open it costs the server a connection.
      chat ??= begin()
      chat.setVisible(true)
      chat.focus()
    } else {
      chat?.setVisible(false)
      button.focus()
    }
  }
  const begin = (): ChatApp => {
    const made = new ChatApp({
      base,
      name: dataset.title || NAME,
      folder: '',
      hasStream: true,
      credentials: 'omit',
      onUnread: () => setUnread(true),
    })
    made.view.head.append(close)
    panel.append(made.view.app)
    made.open()
    return made
  }
  button.addEventListener('click', () => show(panel.hidden))
  close.addEventListener('click', () => show(false))
  panel.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !event.isComposing) show(false)
    if (event.key === 'Tab') keepFocus(event, panel, root)
    // The site's own shortcuts are not meant for what is typed here.
    event.stopPropagation()
  })
  document.addEventListener('svc-chat-open', (event) => {
    if (event instanceof CustomEvent && event.detail !== base && !panel.hidden) {
      panel.hidden = true
      button.setAttribute('aria-expanded', 'false')
      chat?.setVisible(false)
    }
  })
}

/** From the last control Tab leads to the first, and back. */
function keepFocus(event: KeyboardEvent, panel: HTMLElement, root: ShadowRoot): void {
  const all = [...panel.querySelectorAll<HTMLElement>('button, textarea, a[href], [tabindex="0"]')]
  const able = all.filter((node) => !node.matches(':disabled') && node.getClientRects().length > 0 && isVisible(node))
  const [first, last] = [able[0], able.at(-1)]
  const leaving = event.shiftKey ? first : last
  if (root.activeElement !== leaving) return
  event.preventDefault()
  ;(event.shiftKey ? last : first)?.focus()
}

function isVisible(node: HTMLElement): boolean {
  return getComputedStyle(node).visibility !== 'hidden'
}

/** The site's colour, with black or white on it, whichever can be read. */
function paint(frame: HTMLElement, colour: string | undefined): void {
  if (!colour || !CSS.supports('color', colour)) return
  frame.style.setProperty('--accent', colour)
  frame.style.setProperty('--ink', 'var(--text)')
  const context = document.createElement('canvas').getContext('2d')
  if (!context) return
  context.fillStyle = colour
  context.fillRect(0, 0, 1, 1)
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data
  const [r, g, b] = [red, green, blue].map((part) => (part / 255) ** 2.2)
  const light = 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0)
  frame.style.setProperty('--on-accent', light > 0.18 ? '#000' : '#fff')
}
