// The chat of one link: connects the topics of the visitor, the stream of the current topic, and the view.

import { type AttachmentLimits, displayName } from '../text/file-names.ts'
import { toSentence } from '../text/wording.ts'
import { AllTopics } from './all-topics.ts'
import { Attachments } from './attachments.ts'
import { ConversationView } from './conversation.ts'
import { FileCache, FileNodes, type FrameFile } from './files.ts'
import { CodeHighlighter } from './highlight.ts'
import {
  BrowserLinkClient,
  backoffMs,
  type LinkStream,
  type PostedChatMessage,
  ServerRefusal,
  type StreamConnectionState,
} from './link.ts'
import { element, iconButton, iconNode } from './nodes.ts'
import { Notice } from './notice.ts'
import { BrowserOutbox, hasLostFiles, type UnsentMessage } from './outbox.ts'
import { canRecord, VoiceRecorder } from './recorder.ts'
import { hashLinkUrl, randomId } from './stored.ts'
import { TopicList } from './topics.ts'
import { UploadProgress } from './upload.ts'
import { type ChatView, createChatView } from './view.ts'

interface ChatOptions {
  /** The URL of the link, with a trailing slash. */
  readonly base: string
  readonly name: string
  readonly folder: string
  readonly credentials: RequestCredentials
  readonly limits: AttachmentLimits
  /** Called for a message that arrives while the chat is not visible. */
  readonly onUnread: () => void
  /** The URL of a script of the link, as the policy of the page for scripts demands it. */
  readonly scriptUrl: (name: string) => unknown
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
  readonly #attachments: Attachments
  readonly #recorder: VoiceRecorder | undefined
  readonly #fileCache: FileCache
  #files: FileNodes
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
  /** Of messages with files that are being sent, by key. */
  readonly #uploads = new Map<string, UploadProgress>()
  #replayTimer: ReturnType<typeof setTimeout> | undefined

  constructor(options: ChatOptions) {
    const { base, name, folder, credentials, limits } = options
    this.#options = options
    this.#outbox = new BrowserOutbox(base)
    this.#link = new BrowserLinkClient(base, credentials)
    this.view = createChatView({ name, folder, id: `chat-${hashLinkUrl(base)}` })
    this.#notice = new Notice(this.view.notice)
    const onProblem = (problem: string): void => this.#notice.showRefusal(problem)
    this.#attachments = new Attachments(this.view, limits, { onChange: () => this.#updateInput(), onProblem })
    const onRecorded = (file: File): void => this.#attachments.add([file])
    const handlers = { onRecorded, onProblem, onEnd: () => this.focus(), room: () => this.#attachments.room }
    this.#recorder = canRecord() ? new VoiceRecorder(this.view, handlers) : undefined
    this.#fileCache = new FileCache(this.#link)
    this.#files = new FileNodes(this.#fileCache, this.view.log)
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
    new CodeHighlighter({ root: this.view.log, scriptUrl: options.scriptUrl })
    this.#addListeners()
  }

  /** Connects, and sends messages that an earlier page left unsent. */
  open(): void {
    this.#showTopics()
    void this.#allTopics.refresh()
    this.setVisible(document.visibilityState === 'visible')
    for (const unsent of this.#outbox.list()) if (!hasLostFiles(unsent)) void this.#deliver(unsent)
  }

  focus(): void {
    const { input, log } = this.view
    if (input.disabled) log.focus()
    else input.focus()
  }

  setVisible(isVisible: boolean): void {
    this.#isVisible = isVisible
    clearTimeout(this.#idleTimer)
    // A forgotten microphone would stay on.
    if (!isVisible) this.#recorder?.stop()
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
    this.#files.close()
    this.#files = new FileNodes(this.#fileCache, this.view.log)
    const conversation = this.#createConversation()
    this.#conversation = conversation
    for (const unsent of this.#outbox.list().filter((message) => message.topic === topic)) {
      if (hasLostFiles(unsent)) this.#reportLostFiles(unsent)
      else {
        conversation.addUnsent(unsent.key, unsent.content, unsent.files)
        conversation.showDelivery(unsent.key, ...(this.#uploads.get(unsent.key)?.nodes ?? ['Sending …']))
      }
    }
    this.view.log.replaceChildren(this.view.welcome, conversation.node)
    this.#showWelcome()
    this.view.input.value = this.#outbox.draft(topic)
    this.#attachments.show(topic)
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
      files: this.#files,
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
    const { box, input, send } = this.view
    input.style.height = 'auto'
    input.style.height = `${input.scrollHeight}px`
    send.disabled = this.#isBlocked || this.#isClosed || this.#isComposerEmpty
    box.classList.toggle('has-text', input.value !== '')
  }

  get #isComposerEmpty(): boolean {
    return this.view.input.value.trim() === '' && this.#attachments.files.length === 0
  }

  #send(): void {
    const { input } = this.view
    if (this.#isComposerEmpty || this.#isBlocked || this.#isClosed) return
    // With files, spaces are no text.
    const content = input.value.trim() === '' ? '' : input.value
    this.#outbox.saveDraft(this.#topic, '')
    input.value = ''
    this.#sendText(content, this.#attachments.take())
  }

  #sendText(content: string, attached: readonly File[] = []): void {
    if (this.#isBlocked || this.#isClosed) return
    const files = attached.map((file, at) => ({
      id: `${at}`,
      name: file.name,
      type: file.type,
      size: file.size,
      blob: file,
    }))
    const unsent = { key: randomId(), topic: this.#topic, content, files }
    this.#outbox.add(unsent)
    this.#topics.touchCurrent(content || displayName(files[0]?.name ?? ''))
    this.#conversation.addUnsent(unsent.key, content, files)
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
    // The button that had the focus is hidden, and Escape has to reach the chat.
    this.view.log.focus()
    void this.#deliver(unsent)
  }

  async #deliver(unsent: UnsentMessage): Promise<void> {
    const progress = new UploadProgress()
    if (unsent.files?.length) this.#uploads.set(unsent.key, progress)
    await this.#deliverWith(unsent, progress)
    this.#uploads.delete(unsent.key)
  }

  async #deliverWith(unsent: UnsentMessage, progress: UploadProgress): Promise<void> {
    const { key, topic, branch } = unsent
    for (let attempt = 0; ; attempt++) {
      try {
        const posted = await this.#post(unsent, progress)
        this.#outbox.remove(key)
        if (branch) return this.#topics.showBranch(branch.root, topic)
        const wasAtBottom = this.#isAtBottom()
        this.#conversationOf(topic)?.acknowledge(key, posted)
        if (wasAtBottom) this.#scrollToBottom()
        return
      } catch (error) {
        if (error instanceof ServerRefusal && !error.mayHaveBeenAccepted) {
          this.#outbox.remove(key)
          this.#restoreDraft(unsent)
          this.#handleRefusal(error, unsent.files)
          if (this.#isVisible) this.focus()
          return
        }
        if (!progress.signal.aborted) await this.#waitForRetry(unsent, attempt, progress)
        if (progress.signal.aborted) {
          this.#outbox.remove(key)
          this.#restoreDraft(unsent)
          if (this.#isVisible) this.focus()
          return
        }
      }
    }
  }

  #post(unsent: UnsentMessage, progress: UploadProgress): Promise<PostedChatMessage> {
    const { key, topic, content, branch, files = [] } = unsent
    if (files.length === 0) return this.#link.post(content, topic, key, branch?.of)
    this.#conversationOf(topic)?.showDelivery(key, ...progress.nodes)
    return this.#link.upload({ key, topic, content, files }, progress)
  }

  #conversationOf(topic: string): ConversationView | undefined {
    return topic === this.#topic ? this.#conversation : undefined
  }

  /** Waits for the back-off, or after the automatic retries for a click. */
  #waitForRetry({ key, topic, files = [] }: UnsentMessage, attempt: number, progress: UploadProgress): Promise<void> {
    const conversation = this.#conversationOf(topic)
    const cancel = files.length > 0 ? [' ', progress.cancelButton] : []
    return new Promise((resolve) => {
      if (attempt < RETRIES || !conversation) {
        conversation?.showDelivery(key, 'Not sent yet. Trying again …', ...cancel)
        setTimeout(resolve, backoffMs(attempt))
      } else {
        const button = element('button', { type: 'button', class: 'more' }, 'Try again')
        button.addEventListener('click', () => resolve())
        conversation.showDelivery(key, 'Not sent. ', button, ...cancel)
      }
      progress.signal.addEventListener('abort', () => resolve())
      this.#pendingRetries.push(resolve)
    })
  }

  /** Puts a message that was not sent back into the composer, before what was typed and added since. */
  #restoreDraft({ key, topic: sentTo, content, branch, files = [] }: UnsentMessage): void {
    const { input } = this.view
    const topic = branch ? this.#topic : sentTo
    const conversation = this.#conversationOf(topic)
    if (branch) conversation?.showHidden()
    const draft = conversation ? input.value : this.#outbox.draft(topic)
    const text = [content, draft].filter(Boolean).join('\n')
    this.#outbox.saveDraft(topic, text)
    conversation?.removeUnsent(key)
    if (conversation) input.value = text
    this.#attachments.restore(
      topic,
      files.flatMap(({ blob }) => (blob instanceof File ? [blob] : [])),
    )
    this.#updateInput()
  }

  /** The page that had the files of a message was closed before the server acknowledged it. */
  #reportLostFiles({ key, topic, content, files = [] }: UnsentMessage): void {
    const names = files.map(({ name }) => displayName(name)).join(', ')
    this.#outbox.remove(key)
    this.#outbox.saveDraft(topic, [content, this.#outbox.draft(topic)].filter(Boolean).join('\n'))
    this.#notice.showRefusal(
      `The page was closed during an upload. Add the files again and send your message: ${names}.`,
    )
  }

  // Refusals and the connection.

  #handleRefusal({ status, retryAfter, message, hint }: ServerRefusal, files: readonly FrameFile[] = []): void {
    if (status === 401) {
      this.#isClosed = true
      this.#stream?.stop()
      this.#closeInput()
      this.#notice.showRefusal('This link no longer works. Ask for a new one where you got it.')
    } else if (status === 413 && files.length === 0) {
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
    this.#attachments.close()
    this.#recorder?.close()
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
