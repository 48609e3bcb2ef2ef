// Entry of `widget.js`: the chat in the page of another site, as a button that opens a panel. A shadow tree separates its styles
// from the site's, and an adopted style sheet needs no permission in the site's content security policy.

import { ChatApp } from './chat.ts'
import { element, iconButton, iconNode } from './nodes.ts'

/** Parameters of the function around the script; see `wrapInFunction`. */
declare const NAME: string
declare const STYLE: string
declare const ATTACHMENT_MAX: number
declare const ATTACHMENTS_MAX: number
declare const ATTACHMENTS_TOTAL: number

// `currentScript` is set only while the script is evaluated.
const script = document.currentScript
if (script instanceof HTMLScriptElement) whenReady(() => startEmbed(script))

function whenReady(start: () => void): void {
  if (document.body) start()
  else document.addEventListener('DOMContentLoaded', start, { once: true })
}

function startEmbed({ src, dataset }: HTMLScriptElement): void {
  const base = new URL('./', src).href
  const others = [...document.querySelectorAll<HTMLElement>('svc-chat')]
  const side = dataset.position === 'left' ? 'left' : 'right'
  // One button per link; buttons of other links are stacked.
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
  applyColour(frame, dataset.colour ?? dataset.color)

  const sheet = new CSSStyleSheet()
  sheet.replaceSync(STYLE)
  const root = host.attachShadow({ mode: 'open' })
  root.adoptedStyleSheets = [sheet]
  root.append(frame)
  document.body.append(host)

  let chat: ChatApp | undefined
  const setUnread = (unread: boolean): void => {
    button.classList.toggle('has-unread', unread)
    const suffix = button.querySelector('.unread')
    if (suffix) suffix.textContent = unread ? ' (new message)' : ''
  }
  const close = iconButton('Close', iconNode('close'), 'icon close')
  const show = (open: boolean, shouldFocus = true): void => {
    if (open === !panel.hidden) return
    panel.hidden = !open
    button.setAttribute('aria-expanded', String(open))
    if (open) {
      setUnread(false)
      document.dispatchEvent(new CustomEvent('svc-chat-open', { detail: base }))
      // Connects only now, so that visitors who never open the panel cost nothing.
      chat ??= createChat()
      chat.setVisible(true)
      chat.focus()
    } else {
      chat?.setVisible(false)
      if (shouldFocus) button.focus()
    }
  }
  const createChat = (): ChatApp => {
    const created = new ChatApp({
      base,
      name: dataset.title || NAME,
      folder: '',
      credentials: 'omit',
      limits: { each: ATTACHMENT_MAX, count: ATTACHMENTS_MAX, total: ATTACHMENTS_TOTAL },
      onUnread: () => setUnread(true),
      scriptUrl: (name) => base + name,
    })
    created.view.head.append(close)
    panel.append(created.view.app)
    created.open()
    return created
  }
  button.addEventListener('click', () => show(panel.hidden))
  close.addEventListener('click', () => show(false))
  panel.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !event.isComposing) show(false)
    if (event.key === 'Tab') cycleFocus(event, panel, root)
    // Keeps typed text from the shortcuts of the site.
    event.stopPropagation()
  })
  document.addEventListener('svc-chat-open', (event) => {
    if (event instanceof CustomEvent && event.detail !== base) show(false, false)
  })
}

/** Makes Tab cycle through the controls of the panel. */
function cycleFocus(event: KeyboardEvent, panel: HTMLElement, root: ShadowRoot): void {
  const all = [...panel.querySelectorAll<HTMLElement>('button, input, textarea, summary, audio, a[href], [tabindex]')]
  const focusable = all.filter(
    (node) =>
      !node.matches(':disabled, [tabindex="-1"], [inert] *') && node.getClientRects().length > 0 && isVisible(node),
  )
  const ends = [focusable[0], focusable.at(-1)]
  const [from, to] = event.shiftKey ? ends : ends.reverse()
  if (root.activeElement !== from) return
  event.preventDefault()
  to?.focus()
}

function isVisible(node: HTMLElement): boolean {
  return getComputedStyle(node).visibility !== 'hidden'
}

/** Applies the site's colour, with black or white text on it, by contrast. */
function applyColour(frame: HTMLElement, colour: string | undefined): void {
  if (!colour || !CSS.supports('color', colour)) return
  frame.style.setProperty('--accent', colour)
  frame.style.setProperty('--ink', 'var(--text)')
  const context = document.createElement('canvas').getContext('2d')
  if (!context) return
  context.fillStyle = colour
  context.fillRect(0, 0, 1, 1)
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data
  const [r, g, b] = [red, green, blue].map((part) => (part / 255) ** 2.2)
  const luminance = 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0)
  frame.style.setProperty('--on-accent', luminance > 0.18 ? '#000' : '#fff')
}
