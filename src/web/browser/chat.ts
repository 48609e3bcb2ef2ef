// The chat: a link, the topics of its visitor, and what they see of the one they are in.
import { ConversationView } from './conversation.ts'
import { BrowserLinkClient, backoffMs, type LinkStream, ServerRefusal, type StreamConnectionState } from './link.ts'
import { element, iconButton, iconNode } from './nodes.ts'
import { Notice } from './notice.ts'
import { BrowserOutbox, type UnsentMessage } from './outbox.ts'
import { hashLinkUrl, randomId } from './stored.ts'
import { TopicList } from './topics.ts'
import { type ChatView, createChatView } from './view.ts'

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

export class ChatApp {
  readonly view: ChatView
  readonly #options: ChatOptions
  readonly #link: BrowserLinkClient
  readonly #topics: TopicList
  readonly #outbox: BrowserOutbox
  readonly #notice: Notice
  #conversation: ConversationView
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
    this.#outbox = new BrowserOutbox(base)
    this.#link = new BrowserLinkClient(base, credentials)
    this.view = createChatView({ name, folder, id: `chat-${hashLinkUrl(base)}` })
    this.#notice = new Notice(this.view.notice)
    this.#conversation = new ConversationView(name)
    this.#topics = new TopicList(base, () => this.#showTopics())
    this.#listen()
  }

  /** Connects, and sends what a page that was left had not got rid of. */
  open(): void {
    this.#showTopics()
    this.setVisible(document.visibilityState === 'visible')
    for (const unsent of this.#outbox.list()) void this.#deliver(unsent)
  }

  focus(): void {
    const { input, log } = this.view
    if (input.disabled) log.focus()
    else input.focus()
  }

  /** Whether somebody looks at it. */
  setVisible(looking: boolean): void {
    this.#looking = looking
    clearTimeout(this.#idle)
    if (looking && !this.#isOver) {
      this.#stream?.start()
      this.#stream?.wake()
    } else this.#idle = setTimeout(() => this.#rest(), IDLE_MS)
  }

  #rest(): void {
    if (this.#conversation.pendingRounds.length === 0) this.#stream?.stop()
    else this.#idle = setTimeout(() => this.#rest(), IDLE_MS)
  }

  #listen(): void {
    const { app, form, input, log, latestButton, topicsToggle, backdrop, newTopicButtons } = this.view
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
      this.#outbox.saveDraft(this.#topic, input.value)
    })
    log.addEventListener('scroll', () => this.#showLatest(), { passive: true })
    latestButton.addEventListener('click', () => this.#scrollDown())
    topicsToggle.addEventListener('click', () =>
      this.#openTopics(topicsToggle.getAttribute('aria-expanded') !== 'true'),
    )
    backdrop.addEventListener('click', () => this.#openTopics(false))
    app.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || topicsToggle.getAttribute('aria-expanded') !== 'true') return
      event.stopPropagation()
      this.#openTopics(false)
    })
    // Where there is room, the topics always stand beside the log.
    globalThis.addEventListener('resize', () => {
      if (topicsToggle.getClientRects().length === 0) this.#openTopics(false)
    })
    for (const button of newTopicButtons) {
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
      this.setVisible(document.visibilityState === 'visible' && this.#isShown()),
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
        this.#topics.select(id)
        this.#openTopics(false)
        this.focus()
      })
      const forget = iconButton(`Take “${title}” off this list`, iconNode('close'), 'icon forget')
      forget.addEventListener('click', () => this.#topics.remove(id))
      return element('li', {}, button, forget)
    })
    this.view.topics.replaceChildren(...rows)
  }

  #openTopics(open: boolean): void {
    const { app, topicsToggle, nav } = this.view
    if (open === (topicsToggle.getAttribute('aria-expanded') === 'true')) return
    app.classList.toggle('with-topics', open)
    topicsToggle.setAttribute('aria-expanded', String(open))
    this.view.column.inert = open
    if (open) nav.querySelector('button')?.focus()
    else topicsToggle.focus()
  }

  #enter(topic: string): void {
    this.#stream?.stop()
    this.#topic = topic
    const conversation = new ConversationView(this.#options.name)
    this.#conversation = conversation
    for (const unsent of this.#outbox.list())
      if (unsent.topic === topic) conversation.addUnsent(unsent.key, unsent.content)
    this.view.log.replaceChildren(this.view.welcome, conversation.node)
    this.#showWelcome()
    this.view.input.value = this.#outbox.draft(topic)
    if (this.#isOver) this.#closeInput()
    this.#fit()
    if (!this.#options.hasStream || this.#isOver) return
    this.view.log.setAttribute('aria-busy', 'true')
    this.#stream = this.#link.stream(topic, {
      onFrame: (frame) => {
        const down = this.#isDown()
        const isNew = conversation.addFrame(frame)
        this.#shown(down, isNew)
      },
      onRoundEnd: (end) => {
        const down = this.#isDown()
        conversation.endRound(end)
        this.#shown(down, false)
      },
      onConnection: (connection) => this.#connected(connection),
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
    this.view.latestButton.hidden = this.#isDown()
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
    this.#outbox.saveDraft(this.#topic, '')
    this.#topics.touchCurrent(content)
    this.#conversation.addUnsent(unsent.key, content)
    // Whatever was wrong with the message before, this is another one.
    this.#notice.clear()
    this.#showLine()
    this.#showWelcome()
    input.value = ''
    this.#fit()
    this.#scrollDown()
    void this.#deliver(unsent)
  }

  async #deliver(unsent: UnsentMessage): Promise<void> {
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
        if (error instanceof ServerRefusal && !error.mayHaveBeenAccepted) {
          this.#outbox.remove(key)
          this.#giveBack(unsent, error)
          return
        }
        await this.#tryAgain(unsent, tried)
      }
    }
  }

  #conversationOf(topic: string): ConversationView | undefined {
    return topic === this.#topic ? this.#conversation : undefined
  }

  /** Waits a while, or after so many tries until somebody asks for another. */
  #tryAgain({ key, topic }: UnsentMessage, tried: number): Promise<void> {
    const conversation = this.#conversationOf(topic)
    return new Promise((resolve) => {
      if (tried < TRIES || !conversation) {
        conversation?.showDeliveryProblem(key, 'Not sent yet. Trying again …')
        setTimeout(resolve, backoffMs(tried))
      } else {
        const button = element('button', { type: 'button', class: 'more' }, 'Try again')
        button.addEventListener('click', () => resolve())
        conversation.showDeliveryProblem(key, 'Not sent. ', button)
      }
      this.#endPauses.push(resolve)
    })
  }

  /** What was refused goes back to where it can be changed. */
  #giveBack({ key, topic, content }: UnsentMessage, refused: ServerRefusal): void {
    const { input } = this.view
    const conversation = this.#conversationOf(topic)
    const draft = conversation ? input.value : this.#outbox.draft(topic)
    const text = draft ? `${content}\n${draft}` : content
    this.#outbox.saveDraft(topic, text)
    conversation?.removeUnsent(key)
    if (conversation) input.value = text
    this.#refuse(refused)
    if (this.#looking) this.focus()
  }

  /** Without a stream a round is asked for until it is over. */
  async #follow(conversation: ConversationView, turn: string): Promise<void> {
    for (let after = 0; ; ) {
      try {
        const polled = await this.#link.poll(turn, after)
        const down = this.#isDown()
        after = polled.after
        for (const frame of polled.frames) conversation.addFrame(frame)
        if (polled.end) conversation.endRound(polled.end)
        this.#shown(down, polled.frames.length > 0)
        if (polled.end) return
      } catch (error) {
        if (error instanceof ServerRefusal && error.isPermanent) {
          this.#refuse(error)
          return
        }
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  }

  // What hinders.

  #refuse(refused: ServerRefusal): void {
    const { status, retryAfter, message, hint } = refused
    if (status === 401) {
      this.#isOver = true
      this.#stream?.stop()
      this.#closeInput()
      this.#notice.showRefusal('This link does not work any more. Ask for a new one where you got it.')
    } else if (status === 413) {
      this.#notice.showRefusal('This message is too long to be sent. Shorten it, or send it in parts.')
    } else if (status === 429 || status === 503) {
      this.#isBlocked = true
      this.#notice.showCountdown(
        status === 429 ? 'That was a lot at once.' : 'The server is busy.',
        Math.max(retryAfter, 1),
        () => {
          this.#isBlocked = false
          this.#fit()
        },
      )
    } else this.#notice.showRefusal([asSentence(message), hint ? asSentence(hint) : ''].join(' ').trim())
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

  #connected(connection: StreamConnectionState): void {
    if (connection.state === 'open') {
      this.#failures = 0
      this.#settle()
    }
    if (connection.state === 'waiting') {
      this.#failures++
      this.#why = connection.why
      if (connection.why instanceof ServerRefusal && connection.why.isPermanent) this.#refuse(connection.why)
    }
    this.#showLine()
  }

  #showLine(): void {
    if (!navigator.onLine)
      this.#notice.showConnectionProblem('You are offline. The chat goes on when the connection is back.')
    else if (this.#failures < 2) this.#notice.showConnectionProblem(undefined)
    else if (this.#why instanceof ServerRefusal)
      this.#notice.showConnectionProblem('The server is busy. Trying again …')
    else this.#notice.showConnectionProblem('The server cannot be reached. Trying again …')
  }
}

/** A refusal is a sentence without its capital and full stop. */
function asSentence(words: string): string {
  const [first = ''] = words
  return first.toUpperCase() + words.slice(first.length) + (/[.!?…]$/.test(words) ? '' : '.')
}
