// Entry of `widget.js`: adds a button to the page of another site, which opens the chat in a panel. The chat itself (`chat.js`) is
// loaded when it is needed, so that visitors who never open it load little. A shadow tree separates its styles from the site's,
// and adopted style sheets need no permission in the site's content security policy.
import type { AgentProfile } from '../text/agent-profile.ts'
import type { AttachmentLimits } from '../text/file-names.ts'
import { readMetadata } from '../text/metadata.ts'
import { chatFileOf, chooseLanguage } from '../texts/language.ts'
import type { LoaderTexts } from '../texts/texts.ts'
import type { ChatApp, SiteMessage } from './chat.ts'
import { applyColour } from './colour.ts'
import { element, iconButton, lineIcon } from './nodes.ts'
import type { PanelOptions } from './panel.ts'

/** See `buildWidgetScript`. */
declare const CONFIG: WidgetConfig
declare const STYLE: string

interface WidgetConfig {
  readonly agent: AgentProfile
  /** By language. */
  readonly texts: Readonly<Record<string, LoaderTexts>> & { readonly en: LoaderTexts }
  readonly limits: AttachmentLimits
}

interface ChatModule {
  openPanel(options: PanelOptions): ChatApp
}

/** What the scripts of the site get. */
interface SiteChat {
  /** URL of the link. */
  readonly link: string
  open(): void
  close(): void
  /** Sends a message of the visitor in the topic that is open. Rejects if it cannot be sent now. */
  send(text: string): Promise<void>
  /** Returns a function that ends it. */
  on(type: SiteEvent, listener: (detail: unknown) => void): () => void
  /** Given to the agent with each later message, as data; undefined for none. */
  setMetadata(metadata: unknown): void
}

const BUBBLE = [
  'M5 4h14a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2h-7l-5 4v-4H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2z',
  'M8 9h8',
  'M8 12.5h5',
]

const SITE_EVENTS = ['open', 'close', 'message'] as const
type SiteEvent = (typeof SITE_EVENTS)[number]

/** After the scripts in the page, which may wait for `svc-chat-ready`. */
function whenReady(start: () => void): void {
  if (document.readyState !== 'loading') start()
  else document.addEventListener('DOMContentLoaded', start, { once: true })
}

function startEmbed(element: HTMLScriptElement): void {
  const base = new URL('./', element.src).href
  const others = [...document.querySelectorAll<HTMLElement>('svc-chat')]
  // One button per link; buttons of other links are stacked.
  if (others.some((other) => Reflect.get(other, 'link') === base)) return
  const widget = new Widget(base, element, others)
  document.body.append(widget.host)
  const { chat } = widget
  Reflect.set(widget.host, 'chat', chat)
  const first: unknown = Reflect.get(window, 'svcChat')
  // Sites that load pages by script remove the widget, and add it again.
  if (!others.some((other) => Reflect.get(other, 'chat') === first)) Reflect.set(window, 'svcChat', chat)
  document.dispatchEvent(new CustomEvent('svc-chat-ready', { detail: chat }))
}

/** That of the script, else of the site, else of the visitor. */
function languageFor(script: HTMLScriptElement): string {
  const near = script.closest<HTMLElement>('[lang]') ?? document.body.closest<HTMLElement>('[lang]')
  const given = script.dataset.lang || near?.lang
  return chooseLanguage(given ? [given] : navigator.languages, Object.keys(CONFIG.texts))
}

class Widget {
  readonly host = document.createElement('svc-chat')
  readonly chat: SiteChat
  readonly #base: string
  readonly #config: Pick<PanelOptions, 'agent' | 'limits'>
  readonly #language: string
  readonly #texts: LoaderTexts
  readonly #root: ShadowRoot
  readonly #button: HTMLButtonElement
  readonly #panel: HTMLElement
  readonly #close: HTMLButtonElement
  readonly #listeners = new Map<SiteEvent, Set<(detail: unknown) => void>>()
  #loading: Promise<ChatApp> | undefined
  #module: Promise<ChatModule> | undefined
  #attempts = 0
  #metadata: unknown

  constructor(base: string, script: HTMLScriptElement, others: readonly HTMLElement[]) {
    const { dataset, attributes } = script
    const { agent, limits } = CONFIG
    const lang = languageFor(script)
    const texts = CONFIG.texts[lang] ?? CONFIG.texts.en
    this.#language = lang
    this.#texts = texts
    this.#close = iconButton(texts.close, lineIcon('M6 6l12 12', 'M18 6L6 18'), 'icon close')
    this.#base = base
    this.#config = { agent: { ...agent, name: dataset.title || agent.name }, limits }
    const side = dataset.position === 'left' ? 'left' : 'right'
    const { host } = this
    Reflect.set(host, 'link', base)
    host.dataset.side = side
    if (dataset.theme === 'light' || dataset.theme === 'dark') host.dataset.theme = dataset.theme

    const label = dataset.label || texts.chat
    const unread = element('span', { class: 'hidden unread', lang })
    const caption = element('span', { class: 'label', ...(dataset.label ? {} : { lang }) }, label)
    const button = { type: 'button', class: 'launcher', 'aria-expanded': 'false' } as const
    this.#button = element('button', button, lineIcon(...BUBBLE), caption, unread)
    const dialog = { class: 'panel', role: 'dialog', 'aria-modal': 'true', 'aria-label': label, hidden: '' }
    this.#panel = element('div', { ...dialog, lang })
    const frame = element('div', { class: `frame ${side}` }, this.#panel, this.#button)
    frame.style.setProperty('--level', String(others.filter((other) => other.dataset.side === side).length))
    applyColour(frame, dataset.colour ?? dataset.color ?? agent.colour)
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(STYLE)
    this.#root = host.attachShadow({ mode: 'open' })
    this.#root.adoptedStyleSheets = [sheet]
    this.#root.append(frame)
    this.#addListeners()
    this.chat = this.#createSiteChat()
    try {
      this.#metadata = checkedMetadata(metadataOf(attributes))
    } catch (error) {
      // A fault of the site must not stop the chat.
      reportError(error)
    }
  }

  #addListeners(): void {
    this.#button.addEventListener('click', () => this.#show(this.#panel.hidden))
    for (const sign of ['pointerenter', 'focus'])
      this.#button.addEventListener(sign, () => void this.#import().catch(() => {}), { once: true })
    this.#close.addEventListener('click', () => this.#show(false))
    this.#panel.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && !event.isComposing) this.#show(false)
      if (event.key === 'Tab') cycleFocus(event, this.#panel, this.#root)
      // Keeps typed text from the shortcuts of the site.
      event.stopPropagation()
    })
    document.addEventListener('svc-chat-open', (event) => {
      const isOther = event instanceof CustomEvent && event.detail !== this.#base
      // A panel that the site has removed would keep its connection.
      if (isOther || !this.host.isConnected) this.#show(false, false)
    })
  }

  #createSiteChat(): SiteChat {
    return Object.freeze({
      link: this.#base,
      open: () => this.#show(true),
      close: () => this.#show(false, false),
      send: async (text: unknown) => {
        if (typeof text !== 'string' || text.trim() === '') throw new TypeError('send needs a text that is not empty')
        const chat = await this.#load()
        if (!chat.send(text)) throw new Error('the chat cannot send a message now')
      },
      on: (type: unknown, listener: unknown) => this.#listen(type, listener),
      setMetadata: (metadata: unknown) => this.#setMetadata(metadata),
    })
  }

  #listen(type: unknown, listener: unknown): () => void {
    const event = SITE_EVENTS.find((each) => each === type)
    if (event === undefined) throw new TypeError(`on knows the events ${SITE_EVENTS.join(', ')}`)
    if (typeof listener !== 'function') throw new TypeError('on needs a function')
    const call = (detail: unknown): void => listener(detail)
    const listeners = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, listeners.add(call))
    return () => listeners.delete(call)
  }

  #emit(event: SiteEvent, detail?: unknown): void {
    for (const listener of this.#listeners.get(event) ?? []) {
      try {
        listener(detail)
      } catch (error) {
        // A fault of the site must not stop the chat.
        reportError(error)
      }
    }
  }

  #setMetadata(metadata: unknown): void {
    this.#metadata = checkedMetadata(metadata)
    void this.#loading?.then((chat) => chat.setMetadata(this.#metadata)).catch(() => {})
  }

  #show(isOpen: boolean, shouldFocus = true): void {
    if (isOpen === !this.#panel.hidden) return
    this.#panel.hidden = !isOpen
    this.#button.setAttribute('aria-expanded', String(isOpen))
    if (isOpen) {
      this.#setUnread(false)
      document.dispatchEvent(new CustomEvent('svc-chat-open', { detail: this.#base }))
      void this.#showChat()
    } else {
      void this.#loading?.then((chat) => chat.setVisible(false)).catch(() => {})
      if (shouldFocus) this.#button.focus()
    }
    this.#emit(isOpen ? 'open' : 'close')
  }

  async #showChat(): Promise<void> {
    if (!this.#loading) this.#showNote(this.#texts.loading)
    try {
      const chat = await this.#load()
      if (this.#panel.hidden) return
      chat.setVisible(true)
      chat.focus()
    } catch {
      const retry = element('button', { type: 'button', class: 'more' }, this.#texts.tryAgain)
      retry.addEventListener('click', () => void this.#showChat())
      this.#showNote(`${this.#texts.notLoaded} `, retry)
      if (!this.#panel.hidden) retry.focus()
    }
  }

  #showNote(...note: readonly (Node | string)[]): void {
    this.#panel.replaceChildren(this.#close, element('p', { class: 'note', role: 'status', dir: 'auto' }, ...note))
  }

  /** Connects only when the chat is needed, so that visitors who never open it cost nothing. */
  #load(): Promise<ChatApp> {
    this.#loading ??= this.#loadChat().catch((error) => {
      this.#loading = undefined
      throw error
    })
    return this.#loading
  }

  /** Begins when the visitor is about to open the panel. */
  #import(): Promise<ChatModule> {
    // Browsers keep the failure of a URL.
    const url = `${this.#base}${chatFileOf(this.#language)}${this.#attempts === 0 ? '' : `?${this.#attempts}`}`
    this.#module ??= import(url).catch((error) => {
      this.#module = undefined
      this.#attempts++
      throw error
    })
    return this.#module
  }

  async #loadChat(): Promise<ChatApp> {
    const { openPanel } = await this.#import()
    const chat = openPanel({
      ...this.#config,
      base: this.#base,
      root: this.#root,
      panel: this.#panel,
      close: this.#close,
      onUnread: () => this.#setUnread(true),
      onMessage: (message: SiteMessage) => this.#emit('message', message),
    })
    chat.setMetadata(this.#metadata)
    chat.setVisible(!this.#panel.hidden)
    return chat
  }

  #setUnread(isUnread: boolean): void {
    this.#button.classList.toggle('has-unread', isUnread)
    const suffix = this.#button.querySelector('.unread')
    if (suffix) suffix.textContent = isUnread ? ` ${this.#texts.newMessage}` : ''
  }
}

/** `data-metadata-plan="pro"` gives `{ plan: 'pro' }`. */
function metadataOf(attributes: NamedNodeMap): unknown {
  const prefix = 'data-metadata-'
  const given = [...attributes].filter(({ name }) => name.startsWith(prefix))
  if (given.length === 0) return undefined
  return Object.fromEntries(given.map(({ name, value }) => [name.slice(prefix.length), value]))
}

/** The server would refuse the message of the visitor. */
function checkedMetadata(metadata: unknown): unknown {
  if (metadata === undefined || metadata === null) return undefined
  const read = readMetadata(metadata)
  if ('fault' in read) throw new TypeError(read.fault)
  return read.metadata
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

// `currentScript` is set only while the script is evaluated.
const script = document.currentScript
if (script instanceof HTMLScriptElement) whenReady(() => startEmbed(script))
