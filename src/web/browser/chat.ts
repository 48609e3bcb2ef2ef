// The chat of one link: connects the topics of the visitor, the stream of the current topic, and the view.
import { toSentence } from '../text/wording.ts'
import { AllTopics } from './all-topics.ts'
import { ConversationView } from './conversation.ts'
import { BrowserLinkClient, backoffMs, type LinkStream, ServerRefusal, type StreamConnectionState } from './link.ts'
import { element, iconButton, iconNode } from './nodes.ts'
import { Notice } from './notice.ts'
import { BrowserOutbox, type UnsentMessage } from './outbox.ts'
import { hashLinkUrl, randomId } from './stored.ts'
import { TopicList } from './topics.ts'
import { type ChatView, createChatView } from './view.ts'

interface ChatOptions {
  /** The URL of the link, with a trailing slash. */
  readonly base: string
  readonly name: string
  readonly folder: string
  readonly credentials: RequestCredentials
  /** Called for a message that arrives while the chat is not visible. */
  readonly onUnread: () => void
}

/** A hidden page closes its stream after this, because a browser opens only six connections to a host. */
const IDLE_MS = 60_000
/** Automatic retries of a message while the server is not reachable. */
const RETRIES = 5
const BOTTOM_PX = 80
/** The replay of a topic has ended when no frame has arrived for this long. */
const REPLAY_MS = 500

export class ChatApp {
  readonly view: ChatView
  readonly #options: ChatOptions
  readonly #link: BrowserLinkClient
  readonly #topics: TopicList
  readonly #allTopics: AllTopics
  readonly #outbox: BrowserOutbox
  readonly #notice: Notice
  #conversation: ConversationView
  #stream: LinkStream | undefined
  #topic = ''
  #isVisible = true
  #idleTimer: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #lastError: unknown
  /** The server refuses messages for some seconds. */
  #isBlocked = false
  /** The link is gone. */
  #isClosed = false
  #shownTopics = ''
  #pendingRetries: (() => void)[] = []
  #replayTimer: ReturnType<typeof setTimeout> | undefined

  constructor(options: ChatOptions) {
    const { base, name, folder, credentials } = options
    this.#options = options
    this.#outbox = new BrowserOutbox(base)
    this.#link = new BrowserLinkClient(base, credentials)
    this.view = createChatView({ name, folder, id: `chat-${hashLinkUrl(base)}` })
    this.#notice = new Notice(this.view.notice)
    this.#conversation = this.#createConversation()
    this.#topics = new TopicList(base, () => this.#showTopics())
    this.#allTopics = new AllTopics(this.#link, {
      onOpen: ({ topic, title, latest }) => {
        this.#topics.open({ id: topic, title, ...(latest ? { branch: latest } : {}) })
        this.#setTopicsOpen(false)
        this.focus()
      },
      onRename: (topic, title) => this.#topics.rename(topic, title),
      onDelete: (topic) => this.#topics.remove(topic),
      onError: (error) => {
        if (error instanceof ServerRefusal) this.#handleRefusal(error)
        else this.#notice.showRefusal('The server cannot be reached, so the topic was not changed.')
      },
    })
    this.view.nav.append(this.#allTopics.node)
    this.#addListeners()
  }

  /** Connects, and sends messages that an earlier page left unsent. */
  open(): void {
    this.#showTopics()
    void this.#allTopics.refresh()
    this.setVisible(document.visibilityState === 'visible')
    for (const unsent of this.#outbox.list()) void this.#deliver(unsent)
  }

  focus(): void {
    const { input, log } = this.view
    if (input.disabled) log.focus()
    else input.focus()
  }

  setVisible(isVisible: boolean): void {
    this.#isVisible = isVisible
    clearTimeout(this.#idleTimer)
    if (isVisible && !this.#isClosed) {
      this.#stream?.start()
      this.#stream?.wake()
    } else this.#stopLater()
  }

  /** Stops the stream when the chat is idle and no round is pending. */
  #stopLater(): void {
    this.#idleTimer = setTimeout(() => {
      if (this.#conversation.hasPendingRound) this.#stopLater()
      else this.#stream?.stop()
    }, IDLE_MS)
  }

  #addListeners(): void {
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
      this.#updateInput()
      this.#outbox.saveDraft(this.#topic, input.value)
    })
    log.addEventListener('scroll', () => this.#showLatestButton(), { passive: true })
    latestButton.addEventListener('click', () => this.#scrollToBottom())
    topicsToggle.addEventListener('click', () => this.#setTopicsOpen(!this.#isTopicsOpen()))
    backdrop.addEventListener('click', () => this.#setTopicsOpen(false))
    app.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.isComposing) return
      if (this.#isTopicsOpen()) {
        event.stopPropagation()
        this.#setTopicsOpen(false)
      } else if (!app.closest('[role=dialog]')) {
        // In the panel of a widget Escape closes the panel.
        for (const turn of this.#conversation.pendingRounds) void this.#stopAnswer(turn)
      }
    })
    // On a wide screen the topics are always beside the log.
    globalThis.addEventListener('resize', () => {
      if (topicsToggle.getClientRects().length === 0) this.#setTopicsOpen(false)
    })
    for (const button of newTopicButtons) {
      button.addEventListener('click', () => {
        this.#topics.start()
        this.#setTopicsOpen(false)
        this.focus()
      })
    }
    globalThis.addEventListener('online', () => {
      this.#stream?.wake()
      for (const retry of this.#pendingRetries.splice(0)) retry()
      this.#showConnection()
    })
    globalThis.addEventListener('offline', () => this.#showConnection())
    document.addEventListener('visibilitychange', () =>
      this.setVisible(document.visibilityState === 'visible' && app.getClientRects().length > 0),
    )
  }

  // Topics.

  #showTopics(): void {
    const { current, shown } = this.#topics
    if (shown !== this.#topic) this.#openTopic(shown)
    const list = this.#topics.list()
    const shownTopics = JSON.stringify([list, current.id])
    // Replacing an unchanged list would take the keyboard focus from it.
    if (shownTopics === this.#shownTopics) return
    this.#shownTopics = shownTopics
    const rows = list.map(({ id, title }) => {
      const button = element('button', { type: 'button', class: 'topic', dir: 'auto' }, title)
      if (id === current.id) button.setAttribute('aria-current', 'true')
      button.addEventListener('click', () => {
        this.#topics.select(id)
        this.#setTopicsOpen(false)
        this.focus()
      })
      const remove = iconButton(`Remove “${title}” from this list`, iconNode('close'), 'icon remove')
      remove.addEventListener('click', () => this.#topics.remove(id))
      return element('li', {}, button, remove)
    })
    this.view.topics.replaceChildren(...rows)
  }

  #isTopicsOpen(): boolean {
    return this.view.topicsToggle.getAttribute('aria-expanded') === 'true'
  }

  #setTopicsOpen(isOpen: boolean): void {
    const { app, column, topicsToggle, nav } = this.view
    if (isOpen === this.#isTopicsOpen()) return
    app.classList.toggle('with-topics', isOpen)
    topicsToggle.setAttribute('aria-expanded', String(isOpen))
    column.inert = isOpen
    if (isOpen) void this.#allTopics.refresh()
    if (isOpen) nav.querySelector('button')?.focus()
    else topicsToggle.focus()
  }

  #openTopic(topic: string): void {
    this.#stream?.stop()
    this.#topic = topic
    const conversation = this.#createConversation()
    this.#conversation = conversation
    for (const unsent of this.#outbox.list())
      if (unsent.topic === topic) conversation.addUnsent(unsent.key, unsent.content)
    this.view.log.replaceChildren(this.view.welcome, conversation.node)
    this.#showWelcome()
    this.view.input.value = this.#outbox.draft(topic)
    if (this.#isClosed) this.#closeInput()
    this.#updateInput()
    if (this.#isClosed) return
    void this.#showVersions(conversation, topic)
    this.view.log.setAttribute('aria-busy', 'true')
    this.#stream = this.#link.stream(topic, {
      onFrame: (frame) => {
        const wasAtBottom = this.#isAtBottom()
        this.#showUpdate(wasAtBottom, conversation.addFrame(frame))
      },
      onDraft: (delta) => conversation.showDraft(delta),
      onActivity: (activity) => conversation.showActivity(activity),
      onRoundEnd: (end) => {
        const wasAtBottom = this.#isAtBottom()
        conversation.endRound(end)
        this.#showUpdate(wasAtBottom, false)
      },
      onConnection: (connection) => this.#handleConnection(connection),
    })
    this.#stream.start()
  }

  /** Without them the chat works as well: a new stream is not delayed, and errors are left to it. */
  async #showVersions(conversation: ConversationView, topic: string): Promise<void> {
    try {
      conversation.showVersions(await this.#link.versions(topic))
    } catch {
      return
    }
  }

  #createConversation(): ConversationView {
    return new ConversationView(this.#options.name, this.#topic, {
      aroundRender: (render) => {
        const wasAtBottom = this.#isAtBottom()
        render()
        if (wasAtBottom) this.#scrollToBottom()
        else this.#showLatestButton()
      },
      onBranch: (message, content) => this.#sendBranch(message, content),
      onVersion: (topic) => {
        this.#topics.showBranch(this.#topics.current.id, topic)
        this.view.log.focus()
      },
      onStop: (turn) => void this.#stopAnswer(turn),
      onRetry: (content) => {
        this.#sendText(content)
        this.focus()
      },
    })
  }

  async #stopAnswer(turn: string, attempt = 0): Promise<void> {
    const conversation = this.#conversation
    conversation.showStopping(turn, true)
    try {
      await this.#link.stop(turn)
    } catch (error) {
      // It has ended meanwhile, and the stream says how.
      if (error instanceof ServerRefusal && error.status === 409) return
      const isBusy = error instanceof ServerRefusal && error.status === 503
      if (isBusy && attempt < RETRIES) {
        setTimeout(() => void this.#stopAnswer(turn, attempt + 1), backoffMs(0))
        return
      }
      conversation.showStopping(turn, false)
      if (error instanceof ServerRefusal) this.#handleRefusal(error)
      else this.#notice.showRefusal('The server cannot be reached, so the answer was not stopped.')
    }
  }

  #showUpdate(wasAtBottom: boolean, hasNewMessage: boolean): void {
    this.#showWelcome()
    if (wasAtBottom) this.#scrollToBottom()
    else this.#showLatestButton()
    if (this.view.log.getAttribute('aria-busy') === 'true') this.#endReplayLater()
    else if (hasNewMessage && !this.#isVisible) this.#options.onUnread()
  }

  /** Screen readers skip the replay of a topic, because the log is busy until it ends. */
  #endReplayLater(): void {
    clearTimeout(this.#replayTimer)
    this.#replayTimer = setTimeout(() => this.view.log.removeAttribute('aria-busy'), REPLAY_MS)
  }

  #showWelcome(): void {
    // A topic with a title has messages, even if they have not arrived yet.
    this.view.welcome.hidden = !this.#conversation.isEmpty || this.#topics.current.title !== ''
  }

  // Scrolling.

  #isAtBottom(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.view.log
    return scrollHeight - scrollTop - clientHeight < BOTTOM_PX
  }

  #scrollToBottom(): void {
    this.view.log.scrollTop = this.view.log.scrollHeight
    this.#showLatestButton()
  }

  #showLatestButton(): void {
    this.view.latestButton.hidden = this.#isAtBottom()
  }

  // The composer.

  #updateInput(): void {
    const { input, send } = this.view
    input.style.height = 'auto'
    input.style.height = `${input.scrollHeight}px`
    send.disabled = this.#isBlocked || this.#isClosed || input.value.trim() === ''
  }

  #send(): void {
    const { input } = this.view
    const content = input.value
    if (content.trim() === '' || this.#isBlocked || this.#isClosed) return
    this.#outbox.saveDraft(this.#topic, '')
    input.value = ''
    this.#updateInput()
    this.#sendText(content)
  }

  #sendText(content: string): void {
    if (this.#isBlocked || this.#isClosed) return
    const unsent = { key: randomId(), topic: this.#topic, content }
    this.#outbox.add(unsent)
    this.#topics.touchCurrent(content)
    this.#conversation.addUnsent(unsent.key, content)
    // A refusal concerns the previous message.
    this.#notice.clear()
    this.#showConnection()
    this.#showWelcome()
    this.#scrollToBottom()
    void this.#deliver(unsent)
  }

  /** Sends another version of a message. The branch is shown when the server has it. */
  #sendBranch(of: string, content: string): void {
    if (this.#isBlocked || this.#isClosed) return
    const unsent = { key: randomId(), topic: randomId(), content, branch: { of, root: this.#topics.current.id } }
    this.#outbox.add(unsent)
    this.#conversation.hideFrom(of)
    this.#conversation.addUnsent(unsent.key, content)
    this.#notice.clear()
    this.#showConnection()
    this.#scrollToBottom()
    void this.#deliver(unsent)
  }

  async #deliver(unsent: UnsentMessage): Promise<void> {
    const { key, topic, content, branch } = unsent
    for (let attempt = 0; ; attempt++) {
      try {
        const posted = await this.#link.post(content, topic, key, branch?.of)
        this.#outbox.remove(key)
        if (branch) return this.#topics.showBranch(branch.root, topic)
        const wasAtBottom = this.#isAtBottom()
        this.#conversationOf(topic)?.acknowledge(key, posted)
        if (wasAtBottom) this.#scrollToBottom()
        return
      } catch (error) {
        if (error instanceof ServerRefusal && !error.mayHaveBeenAccepted) {
          this.#outbox.remove(key)
          this.#restoreDraft(unsent, error)
          return
        }
        await this.#waitForRetry(unsent, attempt)
      }
    }
  }

  #conversationOf(topic: string): ConversationView | undefined {
    return topic === this.#topic ? this.#conversation : undefined
  }

  /** Waits for the back-off, or after the automatic retries for a click. */
  #waitForRetry({ key, topic }: UnsentMessage, attempt: number): Promise<void> {
    const conversation = this.#conversationOf(topic)
    return new Promise((resolve) => {
      if (attempt < RETRIES || !conversation) {
        conversation?.showDeliveryProblem(key, 'Not sent yet. Trying again …')
        setTimeout(resolve, backoffMs(attempt))
      } else {
        const button = element('button', { type: 'button', class: 'more' }, 'Try again')
        button.addEventListener('click', () => resolve())
        conversation.showDeliveryProblem(key, 'Not sent. ', button)
      }
      this.#pendingRetries.push(resolve)
    })
  }

  /** Puts a refused message back into the input, before what was typed since. */
  #restoreDraft({ key, topic: sentTo, content, branch }: UnsentMessage, refusal: ServerRefusal): void {
    const { input } = this.view
    const topic = branch ? this.#topic : sentTo
    const conversation = this.#conversationOf(topic)
    if (branch) conversation?.showHidden()
    const draft = conversation ? input.value : this.#outbox.draft(topic)
    const text = draft ? `${content}\n${draft}` : content
    this.#outbox.saveDraft(topic, text)
    conversation?.removeUnsent(key)
    if (conversation) input.value = text
    this.#handleRefusal(refusal)
    if (this.#isVisible) this.focus()
  }

  // Refusals and the connection.

  #handleRefusal({ status, retryAfter, message, hint }: ServerRefusal): void {
    if (status === 401) {
      this.#isClosed = true
      this.#stream?.stop()
      this.#closeInput()
      this.#notice.showRefusal('This link no longer works. Ask for a new one where you got it.')
    } else if (status === 413) {
      this.#notice.showRefusal('This message is too long. Shorten it, or send it in parts.')
    } else if (status === 429 || status === 503) {
      this.#isBlocked = true
      const reason = status === 429 ? 'Too many messages at once.' : 'The server is busy.'
      this.#notice.showCountdown(reason, Math.max(retryAfter, 1), () => {
        this.#isBlocked = false
        this.#updateInput()
      })
    } else this.#notice.showRefusal([message, hint ?? ''].filter(Boolean).map(toSentence).join(' '))
    this.#updateInput()
  }

  /** A draft can still be read and copied. */
  #closeInput(): void {
    const { input } = this.view
    const hadFocus = input.matches(':focus')
    input.placeholder = 'This chat is closed'
    input.readOnly = true
    input.disabled = input.value === ''
    if (hadFocus) this.focus()
  }

  #handleConnection(connection: StreamConnectionState): void {
    if (connection.state === 'open') {
      this.#failures = 0
      this.#conversation.awaitDrafts()
      this.#endReplayLater()
    }
    if (connection.state === 'waiting') {
      const { error } = connection
      this.#failures++
      this.#lastError = error
      if (error instanceof ServerRefusal && error.isPermanent) this.#handleRefusal(error)
    }
    this.#showConnection()
  }

  #showConnection(): void {
    if (!navigator.onLine)
      this.#notice.showConnectionProblem('You are offline. The chat continues when you are online again.')
    else if (this.#failures < 2) this.#notice.showConnectionProblem(undefined)
    else if (this.#lastError instanceof ServerRefusal)
      this.#notice.showConnectionProblem('The server is busy. Trying again …')
    else this.#notice.showConnectionProblem('The server cannot be reached. Trying again …')
  }
}
