// The chat of one link: connects the topics of the visitor, the stream of the current topic, and the view.

import type { AgentProfile } from '../text/agent-profile.ts'
import { type AttachmentLimits, displayName } from '../text/file-names.ts'
import { toSentence } from '../text/wording.ts'
import { AllTopics } from './all-topics.ts'
import { Attachments } from './attachments.ts'
import { ConversationView } from './conversation.ts'
import { FileCache, FileNodes } from './files.ts'
import { CodeHighlighter } from './highlight.ts'
import { iconNode } from './icons.ts'
import {
  BrowserLinkClient,
  backoffMs,
  type ChatFrame,
  type LinkStream,
  type PostedChatMessage,
  ServerRefusal,
  type StreamConnectionState,
} from './link.ts'
import { element, iconButton } from './nodes.ts'
import { Notice, SendingPause } from './notice.ts'
import { BrowserOutbox, hasLostFiles, type UnsentMessage } from './outbox.ts'
import { canRecord, VoiceRecorder } from './recorder.ts'
import { MessageSender } from './sender.ts'
import { hashLinkUrl, randomId } from './stored.ts'
import { TEXTS, uiText } from './texts.ts'
import { TopicList } from './topics.ts'
import { type ChatView, createChatView } from './view.ts'

interface ChatOptions {
  /** The URL of the link, with a trailing slash. */
  readonly base: string
  readonly agent: AgentProfile
  readonly folder: string
  readonly credentials: RequestCredentials
  readonly limits: AttachmentLimits
  /** Called for a message that arrives while the chat is not visible. */
  readonly onUnread: () => void
  /** Called for each message of the agent that is not part of a replay. */
  readonly onMessage?: (message: SiteMessage) => void
  /** The URL of a script of the link, as the policy of the page for scripts demands it. */
  readonly scriptUrl: (name: string) => unknown
}

/** For scripts of the site. */
export interface SiteMessage {
  readonly id: string
  readonly topic: string
  readonly content: string
  readonly created_at: string
}

/** A hidden page closes its stream after this, because a browser opens only six connections to a host. */
const IDLE_MS = 60_000
/** Automatic retries of a stop while the server is busy. */
const STOP_RETRIES = 5
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
  readonly #sender: MessageSender
  readonly #notice: Notice
  readonly #pause = new SendingPause()
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
  /** The link is gone. */
  #isClosed = false
  #shownTopics = ''
  #replayTimer: ReturnType<typeof setTimeout> | undefined
  /** Turns of messages that this page has sent since the topic was opened. */
  readonly #ownTurns = new Set<string>()
  /** Messages of the replay that may answer one of this page whose post is not acknowledged yet. */
  #early: ChatFrame[] = []
  #metadata: unknown

  constructor(options: ChatOptions) {
    const { base, agent, folder, credentials, limits } = options
    this.#options = options
    this.#outbox = new BrowserOutbox(base)
    this.#link = new BrowserLinkClient(base, credentials)
    this.#sender = new MessageSender(this.#link, this.#outbox, {
      isShown: (unsent) => this.#conversationOf(unsent) !== undefined,
      onState: (unsent, state) =>
        this.#aroundChange(() => this.#conversationOf(unsent)?.showDelivery(unsent.key, state)),
      onSent: (unsent, posted) => this.#showSent(unsent, posted),
      onRefused: (unsent, refusal) => this.#showRefused(unsent, refusal),
      onCancelled: (unsent) => {
        if (!unsent.branch) this.#outbox.keepKey(unsent)
        if (!this.#putBack(unsent, uiText('messageNotSent'))) this.focus()
      },
    })
    this.view = createChatView({ agent, base, folder, id: `chat-${hashLinkUrl(base)}` })
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
        this.#focusMessages()
      },
      onRename: (topic, title) => this.#topics.rename(topic, title),
      onDelete: (topic) => this.#topics.remove(topic),
      describe: (error) => this.#describeProblem(error, 'topicUnchanged'),
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
    for (const unsent of this.#outbox.list()) if (!hasLostFiles(unsent)) this.#sender.send(unsent)
  }

  focus(): void {
    const { input, log } = this.view
    if (input.disabled) log.focus()
    else input.focus()
  }

  /** Not the input of a phone, whose keyboard would cover the messages. */
  #focusMessages(): void {
    if (matchMedia('(hover: hover)').matches) this.focus()
    else this.view.log.focus()
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
      this.#outbox.saveDraft(this.#topics.current.id, input.value)
    })
    log.addEventListener('scroll', () => this.#showLatestButton(), { passive: true })
    latestButton.addEventListener('click', () => this.#scrollToBottom())
    topicsToggle.addEventListener('click', () => this.#setTopicsOpen(!this.#isTopicsOpen()))
    backdrop.addEventListener('click', () => this.#setTopicsOpen(false))
    app.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.isComposing) return
      if (this.#recorder?.isRecording) {
        event.stopPropagation()
        this.#recorder.stop()
      } else if (this.#isTopicsOpen()) {
        event.stopPropagation()
        this.#setTopicsOpen(false)
      } else if (!app.closest('[role=dialog]') && !this.view.nav.matches(':focus-within')) {
        // In the panel of a widget Escape closes the panel. Among the topics it may mean anything but the answer.
        for (const turn of this.#conversation.stoppableRounds) void this.#stopAnswer(turn)
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
    for (const button of this.view.starterButtons) {
      button.addEventListener('click', () => {
        if (this.#sendText(button.textContent)) this.#focusMessages()
      })
    }
    globalThis.addEventListener('online', () => {
      this.#stream?.wake()
      this.#sender.retryNow()
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
    const rows = list.map(({ id, title }) => this.#topicRow(id, title, id === current.id))
    const { topics, newTopicButtons } = this.view
    const focused = [...topics.children].findIndex((row) => row.matches(':focus-within'))
    topics.replaceChildren(...rows)
    if (focused < 0) return
    const next = rows[Math.min(focused, rows.length - 1)]?.querySelector('button') ?? newTopicButtons[0]
    next?.focus()
  }

  #topicRow(id: string, title: string, isCurrent: boolean): HTMLElement {
    const button = element('button', { type: 'button', class: 'topic', dir: 'auto' }, title)
    if (isCurrent) button.setAttribute('aria-current', 'true')
    button.addEventListener('click', () => {
      this.#topics.select(id)
      this.#setTopicsOpen(false)
      this.#focusMessages()
    })
    const remove = iconButton(uiText('removeTopic', { title }), iconNode('close'), 'icon remove')
    remove.addEventListener('click', () => this.#topics.remove(id))
    return element('li', {}, button, remove)
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
    this.#ownTurns.clear()
    this.#early = []
    this.#files.close()
    this.#files = new FileNodes(this.#fileCache, this.view.log)
    const conversation = this.#createConversation()
    this.#conversation = conversation
    for (const unsent of this.#shownUnsent()) conversation.addUnsent(unsent, this.#sender.stateOf(unsent.key))
    // One that waits for a click in the topic that was shown is tried on.
    this.#sender.retryNow()
    this.view.log.replaceChildren(this.view.welcome, conversation.node)
    clearTimeout(this.#replayTimer)
    if (!this.#isClosed) this.view.log.setAttribute('aria-busy', 'true')
    this.#showWelcome()
    this.#showDraft()
    this.#attachments.show(this.#topics.current.id)
    if (this.#isClosed) this.#closeInput()
    this.#updateInput()
    if (this.#isClosed) return
    void this.#showVersions(conversation, topic)
    this.#openStream(conversation, topic)
  }

  #openStream(conversation: ConversationView, topic: string): void {
    this.#stream = this.#link.stream(topic, {
      onFrame: (frame) => {
        if (this.#showUpdate(() => conversation.addFrame(frame))) this.#report(frame)
      },
      onDraft: (delta) => conversation.showDraft(delta),
      onActivity: (activity) => conversation.showActivity(activity),
      onRoundEnd: (end) =>
        this.#showUpdate(() => {
          conversation.endRound(end)
          return false
        }),
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
    return new ConversationView(this.#options.agent.name, this.#topic, {
      files: this.#files,
      aroundRender: (render) => this.#aroundChange(render),
      onBranch: (message, content, isEdit) => this.#sendBranch(message, content, isEdit),
      onVersion: (topic) => {
        this.#topics.showBranch(this.#topics.current.id, topic)
        this.view.log.focus()
      },
      onStop: (turn) => this.#aroundChange(() => void this.#stopAnswer(turn)),
      onRetry: (content) => {
        const isSent = this.#sendText(content)
        if (isSent) this.#focusMessages()
        return isSent
      },
    })
  }

  async #stopAnswer(turn: string, conversation = this.#conversation, attempt = 0): Promise<void> {
    conversation.showStopping(turn, true)
    try {
      await this.#link.stop(turn)
    } catch (error) {
      // It has ended meanwhile, and the stream says how.
      if (error instanceof ServerRefusal && error.status === 409) return
      const isBusy = error instanceof ServerRefusal && error.status === 503
      if (isBusy && attempt < STOP_RETRIES) {
        setTimeout(() => void this.#stopAnswer(turn, conversation, attempt + 1), backoffMs(0))
        return
      }
      conversation.showStopping(turn, false)
      this.#notice.showRefusal(this.#describeProblem(error, 'answerNotStopped'))
    }
  }

  /** Reports a message of the agent to the site, unless it is from before. */
  #report(frame: ChatFrame): void {
    const { id, turn_id, topic, content, created_at } = frame
    if (!this.#isReplaying || this.#ownTurns.has(turn_id)) this.#options.onMessage?.({ id, topic, content, created_at })
    else this.#early.push(frame)
  }

  get #isReplaying(): boolean {
    return this.view.log.getAttribute('aria-busy') === 'true'
  }

  /** `update` returns whether there is a new message of the agent, and so does this. */
  #showUpdate(update: () => boolean): boolean {
    let hasNewMessage = false
    this.#aroundChange(() => {
      hasNewMessage = update()
      this.#showWelcome()
    })
    if (this.#isReplaying) this.#endReplayLater()
    else if (hasNewMessage && !this.#isVisible) this.#options.onUnread()
    return hasNewMessage
  }

  /** Screen readers skip the replay of a topic, because the log is busy until it ends. */
  #endReplayLater(): void {
    clearTimeout(this.#replayTimer)
    this.#replayTimer = setTimeout(() => {
      this.view.log.removeAttribute('aria-busy')
      this.#early = []
      this.#showWelcome()
      for (const unsent of this.#shownUnsent()) if (hasLostFiles(unsent)) this.#reportLostFiles(unsent)
    }, REPLAY_MS)
  }

  #showWelcome(): void {
    // A topic with a title has messages, even if they have not arrived yet.
    const isExpected = this.#isReplaying && this.#topics.current.title !== ''
    this.view.welcome.hidden = !this.#conversation.isEmpty || isExpected
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

  /** A change of the log keeps a reader at its end, and the focus in it if that was on a button that is gone. */
  #aroundChange(change: () => void): void {
    const { log } = this.view
    const [wasAtBottom, hadFocus] = [this.#isAtBottom(), log.matches(':focus-within')]
    change()
    if (hadFocus && !log.matches(':focus-within')) log.focus({ preventScroll: true })
    if (wasAtBottom) this.#scrollToBottom()
    else this.#showLatestButton()
  }

  #showLatestButton(): void {
    this.view.latestButton.hidden = this.#isAtBottom()
  }

  // The composer.

  #updateInput(): void {
    const { box, input, send } = this.view
    input.style.height = 'auto'
    input.style.height = `${input.scrollHeight}px`
    send.disabled = this.#pause.isOn || this.#isClosed || this.#conversation.isReplacing || this.#isComposerEmpty
    box.classList.toggle('has-text', input.value !== '')
  }

  get #isComposerEmpty(): boolean {
    return this.view.input.value.trim() === '' && this.#attachments.files.length === 0
  }

  #send(): void {
    const { input } = this.view
    if (this.#isComposerEmpty || !this.#maySend()) return
    // With files, spaces are no text.
    const content = input.value.trim() === '' ? '' : input.value
    this.#outbox.saveDraft(this.#topics.current.id, '')
    input.value = ''
    this.#sendText(content, this.#attachments.take())
  }

  /** Shows why not. */
  #maySend(): boolean {
    if (this.#pause.isOn) this.#pause.show(this.#notice)
    return !this.#pause.isOn && !this.#isClosed && !this.#conversation.isReplacing
  }

  /** Whether it is sent. */
  #sendText(content: string, attached: readonly File[] = []): boolean {
    if (!this.#maySend()) return false
    const files = attached.map((file, at) => ({
      id: `${at}`,
      name: file.name,
      type: file.type,
      size: file.size,
      blob: file,
    }))
    const message = { topic: this.#topic, root: this.#topics.current.id, content, files }
    this.#topics.touchCurrent(content || displayName(files[0]?.name ?? '', TEXTS))
    this.#sendUnsent({ ...message, key: this.#outbox.takeKey(message), after: this.#conversation.latest })
    return true
  }

  /** Sends another version of a message. The branch is shown when the server has it. */
  #sendBranch(of: string, content: string, isEdit: boolean): boolean {
    if (!this.#maySend()) return false
    const branch = { of, from: this.#topic, isEdit }
    const root = this.#topics.current.id
    this.#sendUnsent({ key: randomId(), topic: randomId(), root, content, after: this.#conversation.latest, branch })
    // The button that had the focus is hidden, and Escape has to reach the chat.
    this.view.log.focus()
    return true
  }

  /** A message of the site's script. Whether it is sent. */
  send(content: string): boolean {
    return this.#sendText(content)
  }

  setMetadata(metadata: unknown): void {
    this.#metadata = metadata
  }

  #sendUnsent(message: UnsentMessage): void {
    const unsent = this.#metadata === undefined ? message : { ...message, metadata: this.#metadata }
    this.#outbox.add(unsent)
    this.#conversation.addUnsent(unsent, this.#sender.stateOf(unsent.key))
    // A refusal concerns the previous message.
    this.#notice.clear()
    this.#showConnection()
    this.#showWelcome()
    this.#updateInput()
    this.#scrollToBottom()
    this.#sender.send(unsent)
  }

  #showSent(unsent: UnsentMessage, posted: PostedChatMessage): void {
    const { key, topic, root, branch } = unsent
    this.#ownTurns.add(posted.id)
    const answers = this.#early.filter(({ turn_id }) => turn_id === posted.id)
    this.#early = this.#early.filter((frame) => !answers.includes(frame))
    for (const answer of answers) this.#report(answer)
    if (branch) {
      this.#conversationOf(unsent)?.removeUnsent(key)
      this.#topics.showBranch(root, topic)
      this.#updateInput()
    } else this.#aroundChange(() => this.#conversationOf(unsent)?.acknowledge(key, posted))
    void this.#allTopics.refreshFor(root)
  }

  /** The conversation that shows an unsent message, if it is open. */
  #conversationOf(unsent: UnsentMessage): ConversationView | undefined {
    return shownTopicOf(unsent) === this.#topic ? this.#conversation : undefined
  }

  #shownUnsent(): UnsentMessage[] {
    return this.#outbox.list().filter((unsent) => shownTopicOf(unsent) === this.#topic)
  }

  #showRefused(unsent: UnsentMessage, refusal: ServerRefusal): void {
    const conversation = this.#conversationOf(unsent)
    const reason = describeSendRefusal(refusal, unsent)
    const isAtMessage = this.#putBack(unsent, reason)
    if (refusal.status === 401) this.#close()
    else if (refusal.isBusy) {
      this.#pause.start(reason, Math.max(refusal.retryAfter, 1), () => this.#updateInput())
      this.#pause.show(this.#notice)
    } else if (!isAtMessage) this.#notice.showRefusal(reason)
    this.#updateInput()
    const isTyping = this.view.app.querySelector('input:focus, textarea:focus') !== null
    if (conversation && !isAtMessage && !isTyping && this.#isVisible) this.focus()
  }

  /** Puts a message that was not sent back to the one that it should replace, with the reason, or else into the composer. */
  #putBack(unsent: UnsentMessage, reason: string): boolean {
    const conversation = this.#conversationOf(unsent)
    let isAtMessage = false
    this.#aroundChange(() => {
      conversation?.removeUnsent(unsent.key)
      isAtMessage = conversation?.showRefused(unsent, reason) === true
    })
    if (!isAtMessage) this.#restoreDraft(unsent)
    this.#updateInput()
    return isAtMessage
  }

  /** Puts a message into the composer, before what was typed and added since. */
  #restoreDraft({ root, branch, content, files = [] }: UnsentMessage): void {
    // The text of another answer is still in the log.
    if (!branch || branch.isEdit) this.#outbox.restore(root, content)
    if (root === this.#topics.current.id) this.#showDraft()
    this.#attachments.restore(
      root,
      files.flatMap(({ blob }) => (blob instanceof File ? [blob] : [])),
    )
    this.#updateInput()
  }

  #showDraft(): void {
    const { input } = this.view
    const draft = this.#outbox.draft(this.#topics.current.id)
    // Setting the same text would move the cursor.
    if (input.value !== draft) input.value = draft
  }

  /** The page that had the files of a message was closed before the server acknowledged it. */
  #reportLostFiles(unsent: UnsentMessage): void {
    this.#outbox.remove(unsent.key)
    const isReceived = this.#conversation.hasReceived(unsent.key)
    this.#conversation.removeUnsent(unsent.key)
    if (isReceived) return
    const names = (unsent.files ?? []).map(({ name }) => displayName(name, TEXTS)).join(', ')
    this.#outbox.keepKey(unsent)
    this.#restoreDraft(unsent)
    this.#notice.showRefusal(uiText('uploadLost', { names }))
  }

  // Refusals and the connection.

  /** Of a request that sends no message, and therefore does not pause the chat. `what` did not happen. */
  #describeProblem(error: unknown, what: 'topicUnchanged' | 'answerNotStopped'): string {
    const consequence = uiText(what)
    if (!(error instanceof ServerRefusal))
      return uiText('problem', { reason: uiText('serverUnreachable'), consequence })
    if (error.status === 401) this.#close()
    if (error.status === 401) return uiText('linkGone')
    if (!error.isBusy) return toSentences(error.message, error.hint)
    const reason = uiText(error.status === 429 ? 'tooManyRequests' : 'serverBusy')
    return uiText('problemWait', { reason, consequence, seconds: Math.max(error.retryAfter, 1) })
  }

  #close(): void {
    this.#isClosed = true
    this.#stream?.stop()
    this.#closeInput()
    this.#notice.showRefusal(uiText('linkGone'))
    this.#updateInput()
  }

  /** A draft can still be read and copied. */
  #closeInput(): void {
    const { input } = this.view
    const hadFocus = input.matches(':focus')
    this.#attachments.close()
    this.#recorder?.close()
    input.placeholder = uiText('chatClosed')
    input.readOnly = true
    input.disabled = input.value === ''
    if (hadFocus) this.focus()
  }

  #handleConnection(connection: StreamConnectionState): void {
    if (connection.state === 'open') {
      this.#failures = 0
      this.#conversation.awaitDrafts()
      this.#sender.retryNow()
      this.#endReplayLater()
    }
    if (connection.state === 'waiting') {
      const { error } = connection
      this.#failures++
      this.#lastError = error
      if (error instanceof ServerRefusal && error.status === 401) this.#close()
      else if (error instanceof ServerRefusal && error.isPermanent)
        this.#notice.showRefusal(toSentences(error.message, error.hint))
    }
    this.#showConnection()
  }

  #showConnection(): void {
    if (!navigator.onLine) this.#notice.showConnectionProblem(uiText('offline'))
    else if (this.#failures < 2) this.#notice.showConnectionProblem(undefined)
    else if (this.#lastError instanceof ServerRefusal) this.#notice.showConnectionProblem(uiText('retryingBusy'))
    else this.#notice.showConnectionProblem(uiText('retryingUnreachable'))
  }
}

/** A branch is shown in the place of the message that it replaces, until the server has it. */
function shownTopicOf({ topic, branch }: UnsentMessage): string {
  return branch?.from ?? topic
}

function describeSendRefusal({ status, message, hint }: ServerRefusal, { files = [] }: UnsentMessage): string {
  if (status === 401) return uiText('linkGone')
  if (status === 408) return uiText('tooSlow')
  if (status === 413 && files.length === 0) return uiText('tooLong')
  if (status === 429) return uiText('tooManyMessages')
  return status === 503 ? toSentence(uiText('serverBusy')) : toSentences(message, hint)
}

function toSentences(...texts: readonly (string | undefined)[]): string {
  return texts
    .filter((text) => text !== undefined)
    .map(toSentence)
    .join(' ')
}
