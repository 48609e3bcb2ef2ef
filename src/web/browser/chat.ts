// The chat: a link, the topics of its visitor, and what they see of the one they are in.
import { Conversation } from './conversation.ts'
import { type Connection, Link, type LinkStream, pause, Refused } from './link.ts'
import { element, iconButton, picture } from './nodes.ts'
import { Notice } from './notice.ts'
import { Outbox, type Unsent } from './outbox.ts'
import { linkName, randomId } from './stored.ts'
import { Topics } from './topics.ts'
import { makeView, type View } from './view.ts'

export interface ChatOptions {
  /** The address of the link, with its slash. */
  readonly base: string
  readonly name: string
  readonly folder: string
  readonly hasStream: boolean
  readonly credentials: RequestCredentials
  /** Something came while nobody looked. */
  readonly onUnread: () => void
}

/** A page that nobody looks at gives its connection back after this: a browser has six for a host. */
const IDLE_MS = 60_000
const POLL_MS = 1_000
/** How often a message is sent again by itself when the server is not reached. */
const TRIES = 5
const NEAR_PX = 80

export class Chat {
  readonly view: View
  readonly #options: ChatOptions
  readonly #link: Link
  readonly #topics: Topics
  readonly #outbox: Outbox
  readonly #notice: Notice
  #conversation: Conversation
  #stream: LinkStream | undefined
  #topic = ''
  #looking = true
  #idle: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #why: unknown
  #isBlocked = false
  /** The link is gone. */
  #isOver = false
  #listed = ''
  #endPauses: (() => void)[] = []
  #quiet: ReturnType<typeof setTimeout> | undefined

  constructor(options: ChatOptions) {
    const { base, name, folder, credentials } = options
    this.#options = options
    this.#outbox = new Outbox(base)
    this.#link = new Link(base, credentials)
    this.view = makeView({ name, folder, id: `chat-${linkName(base)}` })
    this.#notice = new Notice(this.view.notice)
    this.#conversation = new Conversation(name)
    this.#topics = new Topics(base, () => this.#showTopics())
    this.#listen()
  }

  /** Connects, and sends what a page that was left had not got rid of. */
  open(): void {
    this.#showTopics()
    this.look(document.visibilityState === 'visible')
    for (const unsent of this.#outbox.list()) void this.#deliver(unsent)
  }

  focus(): void {
    const { input, log } = this.view
    if (input.disabled) log.focus()
    else input.focus()
  }

  /** Whether somebody looks at it. */
  look(looking: boolean): void {
    this.#looking = looking
    clearTimeout(this.#idle)
    if (looking && !this.#isOver) {
      this.#stream?.start()
      this.#stream?.wake()
    } else this.#idle = setTimeout(() => this.#rest(), IDLE_MS)
  }

  #rest(): void {
    if (this.#conversation.pending.length === 0) this.#stream?.stop()
    else this.#idle = setTimeout(() => this.#rest(), IDLE_MS)
  }

  #listen(): void {
    const { app, form, input, log, latest, toggle, shade, fresh } = this.view
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.#send()
    })
    input.addEventListener('keydown', (event) => {
      // While a word is being composed, Enter chooses it.
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return
      event.preventDefault()
      this.#send()
    })
    input.addEventListener('input', () => {
      this.#fit()
      this.#outbox.keepDraft(this.#topic, input.value)
    })
    log.addEventListener('scroll', () => this.#showLatest(), { passive: true })
    latest.addEventListener('click', () => this.#scrollDown())
    toggle.addEventListener('click', () => this.#openTopics(toggle.getAttribute('aria-expanded') !== 'true'))
    shade.addEventListener('click', () => this.#openTopics(false))
    app.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || toggle.getAttribute('aria-expanded') !== 'true') return
      event.stopPropagation()
      this.#openTopics(false)
    })
    // Where there is room, the topics always stand beside the log.
    globalThis.addEventListener('resize', () => {
      if (toggle.getClientRects().length === 0) this.#openTopics(false)
    })
    for (const button of fresh) {
      button.addEventListener('click', () => {
        this.#topics.start()
        this.#openTopics(false)
        this.focus()
      })
    }
    globalThis.addEventListener('online', () => {
      this.#stream?.wake()
      for (const end of this.#endPauses.splice(0)) end()
      this.#showLine()
    })
    globalThis.addEventListener('offline', () => this.#showLine())
    document.addEventListener('visibilitychange', () =>
      this.look(document.visibilityState === 'visible' && this.#isShown()),
    )
  }

  #isShown(): boolean {
    return this.view.app.getClientRects().length > 0
  }

  // Topics.

  #showTopics(): void {
    const { current } = this.#topics
    if (current.id !== this.#topic) this.#enter(current.id)
    const list = this.#topics.list()
    const listed = JSON.stringify([list, current.id])
    // A list that is made anew would take the focus away from whoever walks through it.
    if (listed === this.#listed) return
    this.#listed = listed
    const rows = list.map(({ id, title }) => {
      const button = element('button', { type: 'button', class: 'topic', dir: 'auto' }, title)
      if (id === current.id) button.setAttribute('aria-current', 'true')
      button.addEventListener('click', () => {
        this.#topics.choose(id)
        this.#openTopics(false)
        this.focus()
      })
      const forget = iconButton(`Take “${title}” off this list`, picture('close'), 'icon forget')
      forget.addEventListener('click', () => this.#topics.forget(id))
      return element('li', {}, button, forget)
    })
    this.view.topics.replaceChildren(...rows)
  }

  #openTopics(open: boolean): void {
    const { app, toggle, nav } = this.view
    if (open === (toggle.getAttribute('aria-expanded') === 'true')) return
    app.classList.toggle('with-topics', open)
    toggle.setAttribute('aria-expanded', String(open))
    this.view.column.inert = open
    if (open) nav.querySelector('button')?.focus()
    else toggle.focus()
  }

  #enter(topic: string): void {
    this.#stream?.stop()
    this.#topic = topic
    const conversation = new Conversation(this.#options.name)
    this.#conversation = conversation
    for (const unsent of this.#outbox.list()) if (unsent.topic === topic) conversation.add(unsent.key, unsent.content)
    this.view.log.replaceChildren(this.view.welcome, conversation.node)
    this.#showWelcome()
    this.view.input.value = this.#outbox.draft(topic)
    if (this.#isOver) this.#closeInput()
    this.#fit()
    if (!this.#options.hasStream || this.#isOver) return
    this.view.log.setAttribute('aria-busy', 'true')
    this.#stream = this.#link.stream(topic, {
      frame: (frame) => {
        const down = this.#isDown()
        const isNew = conversation.frame(frame)
        this.#shown(down, isNew)
      },
      end: (end) => {
        const down = this.#isDown()
        conversation.end(end)
        this.#shown(down, false)
      },
      connection: (connection) => this.#connected(connection),
    })
    this.#stream.start()
  }

  #shown(down: boolean, isNew: boolean): void {
    this.#showWelcome()
    if (down) this.#scrollDown()
    else this.#showLatest()
    if (isNew && !this.#looking && !this.#isBusy()) this.#options.onUnread()
    if (this.#isBusy()) this.#settle()
  }

  #isBusy(): boolean {
    return this.view.log.getAttribute('aria-busy') === 'true'
  }

  /** What is replayed when a topic is opened is not read out; what comes after it is. */
  #settle(): void {
    clearTimeout(this.#quiet)
    this.#quiet = setTimeout(() => this.view.log.removeAttribute('aria-busy'), 500)
  }

  #showWelcome(): void {
    // A topic with a title has messages; they are on their way.
    this.view.welcome.hidden = !this.#conversation.isEmpty || this.#topics.current.title !== ''
  }

  // Scrolling.

  #isDown(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.view.log
    return scrollHeight - scrollTop - clientHeight < NEAR_PX
  }

  #scrollDown(): void {
    this.view.log.scrollTop = this.view.log.scrollHeight
    this.#showLatest()
  }

  #showLatest(): void {
    this.view.latest.hidden = this.#isDown()
  }

  // The composer.

  #fit(): void {
    const { input, send } = this.view
    input.style.height = 'auto'
    input.style.height = `${input.scrollHeight}px`
    send.disabled = this.#isBlocked || this.#isOver || input.value.trim() === ''
  }

  #send(): void {
    const { input } = this.view
    const content = input.value
    if (content.trim() === '' || this.#isBlocked || this.#isOver) return
    const unsent = { key: randomId(), topic: this.#topic, content }
    this.#outbox.add(unsent)
    this.#outbox.keepDraft(this.#topic, '')
    this.#topics.touch(content)
    this.#conversation.add(unsent.key, content)
    // Whatever was wrong with the message before, this is another one.
    this.#notice.clear()
    this.#showLine()
    this.#showWelcome()
    input.value = ''
    this.#fit()
    this.#scrollDown()
    void this.#deliver(unsent)
  }

  async #deliver(unsent: Unsent): Promise<void> {
    const { key, topic, content } = unsent
    for (let tried = 0; ; tried++) {
      try {
        const posted = await this.#link.post(content, topic, key)
        this.#outbox.remove(key)
        const [down, conversation] = [this.#isDown(), this.#conversationOf(topic)]
        conversation?.acknowledge(key, posted)
        if (down) this.#scrollDown()
        if (conversation && !this.#options.hasStream) void this.#follow(conversation, posted.id)
        return
      } catch (error) {
        if (error instanceof Refused && !error.isUnsure) {
          this.#outbox.remove(key)
          this.#giveBack(unsent, error)
          return
        }
        await this.#tryAgain(unsent, tried)
      }
    }
  }

  #conversationOf(topic: string): Conversation | undefined {
    return topic === this.#topic ? this.#conversation : undefined
  }

  /** Waits a while, or after so many tries until somebody asks for another. */
  #tryAgain({ key, topic }: Unsent, tried: number): Promise<void> {
    const conversation = this.#conversationOf(topic)
    return new Promise((resolve) => {
      if (tried < TRIES || !conversation) {
        conversation?.hinder(key, 'Not sent yet. Trying again …')
        setTimeout(resolve, pause(tried))
      } else {
        const button = element('button', { type: 'button', class: 'more' }, 'Try again')
        button.addEventListener('click', () => resolve())
        conversation.hinder(key, 'Not sent. ', button)
      }
      this.#endPauses.push(resolve)
    })
  }

  /** What was refused goes back to where it can be changed. */
  #giveBack({ key, topic, content }: Unsent, refused: Refused): void {
    const { input } = this.view
    const conversation = this.#conversationOf(topic)
    const draft = conversation ? input.value : this.#outbox.draft(topic)
    const text = draft ? `${content}\n${draft}` : content
    this.#outbox.keepDraft(topic, text)
    conversation?.withdraw(key)
    if (conversation) input.value = text
    this.#refuse(refused)
    if (this.#looking) this.focus()
  }

  /** Without a stream a round is asked for until it is over. */
  async #follow(conversation: Conversation, turn: string): Promise<void> {
    for (let after = 0; ; ) {
      try {
        const polled = await this.#link.poll(turn, after)
        const down = this.#isDown()
        after = polled.after
        for (const frame of polled.frames) conversation.frame(frame)
        if (polled.end) conversation.end(polled.end)
        this.#shown(down, polled.frames.length > 0)
        if (polled.end) return
      } catch (error) {
        if (error instanceof Refused && error.isFinal) {
          this.#refuse(error)
          return
        }
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  }

  // What hinders.

  #refuse(refused: Refused): void {
    const { status, retryAfter, message, hint } = refused
    if (status === 401) {
      this.#isOver = true
      this.#stream?.stop()
      this.#closeInput()
      this.#notice.say('This link does not work any more. Ask for a new one where you got it.')
    } else if (status === 413) {
      this.#notice.say('This message is too long to be sent. Shorten it, or send it in parts.')
    } else if (status === 429 || status === 503) {
      this.#isBlocked = true
      this.#notice.count(
        status === 429 ? 'That was a lot at once.' : 'The server is busy.',
        Math.max(retryAfter, 1),
        () => {
          this.#isBlocked = false
          this.#fit()
        },
      )
    } else this.#notice.say([asSentence(message), hint ? asSentence(hint) : ''].join(' ').trim())
    this.#fit()
  }

  /** What was being written can still be read and copied. */
  #closeInput(): void {
    const { input } = this.view
    const hadFocus = input.matches(':focus')
    input.placeholder = 'This chat is closed'
    input.readOnly = true
    input.disabled = input.value === ''
    if (hadFocus) this.focus()
  }

  #connected(connection: Connection): void {
    if (connection.state === 'open') {
      this.#failures = 0
      this.#settle()
    }
    if (connection.state === 'waiting') {
      this.#failures++
      this.#why = connection.why
      if (connection.why instanceof Refused && connection.why.isFinal) this.#refuse(connection.why)
    }
    this.#showLine()
  }

  #showLine(): void {
    if (!navigator.onLine) this.#notice.line('You are offline. The chat goes on when the connection is back.')
    else if (this.#failures < 2) this.#notice.line(undefined)
    else if (this.#why instanceof Refused) this.#notice.line('The server is busy. Trying again …')
    else this.#notice.line('The server cannot be reached. Trying again …')
  }
}

/** A refusal is a sentence without its capital and full stop. */
function asSentence(words: string): string {
  const [first = ''] = words
  return first.toUpperCase() + words.slice(first.length) + (/[.!?…]$/.test(words) ? '' : '.')
}
