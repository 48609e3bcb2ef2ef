// The log of one topic: its messages in the order of the link, then the status of each round that is not over.
import { describeFailure, isStopped } from '../text/wording.ts'
import { type Activity, ActivityText, ToolCallList } from './activity.ts'
import { DraftNode } from './draft.ts'
import { openMessageEditor } from './edit.ts'
import type { FileNodes, FrameFile } from './files.ts'
import type { ChatFrame, DraftDelta, PostedChatMessage, RoundEnd } from './link.ts'
import { messageNode } from './message.ts'
import { type Child, element } from './nodes.ts'
import { hasLostFiles, type UnsentMessage } from './outbox.ts'
import { TEXTS, uiText } from './texts.ts'
import { type TopicVersion, versionSwitch, versionsOf } from './versions.ts'

interface LogEntry {
  readonly seq: number
  readonly node: HTMLElement
}

/** A message that is not a note. */
interface ShownMessage {
  readonly topic: string
  readonly seq: number
  readonly node: HTMLElement
}

interface UnsentEntry {
  readonly message: UnsentMessage
  readonly node: HTMLElement
  isReceived: boolean
}

interface RoundState {
  /** In a topic that this branch continues. It may have ended after the fork. */
  readonly isEarlier: boolean
  isOver: boolean
  isAnswered: boolean
  /** The answer has an end that says so. */
  isCut: boolean
  isStopping: boolean
  statusNode: HTMLElement | undefined
  readonly activity: ActivityText
  calls: ToolCallList | undefined
  readonly stopButton: HTMLElement
  draft: DraftNode | undefined
  /** The draft has ended without a message so far. */
  isBroken: boolean
  breakTimer: ReturnType<typeof setTimeout> | undefined
}

interface ConversationHandlers {
  readonly files: FileNodes
  /** Called with each function that renders a draft. */
  aroundRender(render: () => void): void
  onStop(turn: string): void
  /** Called with the text of a message that has no answer. Returns whether it is sent. */
  onRetry(content: string): boolean
  /** Called with another text for a message, or the same one for another answer. Returns whether it is sent. */
  onBranch(message: string, content: string, isEdit: boolean): boolean
  onVersion(topic: string): void
}

/** A draft that has ended stays this long, because a message may replace it. */
const BREAK_MS = 1000
/** A new stream has the drafts again within this time. */
const RESUME_MS = 5000

export class ConversationView {
  readonly node: HTMLElement
  readonly #name: string
  readonly #handlers: ConversationHandlers
  readonly #list = element('div', { class: 'list' })
  readonly #working = element('div', { class: 'working' })
  /** Sorted by `seq`. */
  readonly #entries: LogEntry[] = []
  readonly #byId = new Map<string, LogEntry>()
  /** By idempotency key, until the server returns an id. */
  readonly #unsent = new Map<string, UnsentEntry>()
  readonly #rounds = new Map<string, RoundState>()
  readonly #questions = new Map<string, { readonly content: string; readonly hasFiles: boolean }>()
  readonly #messages = new Map<string, ShownMessage>()
  /** Buttons of a round, hidden while it is pending. */
  readonly #actions = new Map<string, HTMLElement[]>()
  readonly #topic: string
  #versions: readonly TopicVersion[] = []
  /** The message of which another version is being sent. */
  #replaced: string | undefined

  constructor(name: string, topic: string, handlers: ConversationHandlers) {
    this.#name = name
    this.#topic = topic
    this.#handlers = handlers
    this.node = element('div', { class: 'conversation' }, this.#list, this.#working)
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  get hasPendingRound(): boolean {
    return this.pendingRounds.length > 0
  }

  get pendingRounds(): readonly string[] {
    return [...this.#rounds].flatMap(([turn, { isOver, isEarlier }]) => (isOver || isEarlier ? [] : [turn]))
  }

  /** Without those that are being stopped. */
  get stoppableRounds(): readonly string[] {
    return this.pendingRounds.filter((turn) => !this.#rounds.get(turn)?.isStopping)
  }

  /** The number of the latest event in the log. */
  get latest(): number {
    return this.#entries.findLast(({ seq }) => Number.isFinite(seq))?.seq ?? 0
  }

  get isReplacing(): boolean {
    return this.#replaced !== undefined
  }

  /** Whether the frame is a new message of the agent. */
  addFrame(frame: ChatFrame): boolean {
    const round = frame.turn_id ? this.#round(frame.turn_id, frame.topic !== this.#topic) : undefined
    if (frame.kind === 'status') {
      if (round && !round.isOver) this.#showStatus(round, frame.content)
      return false
    }
    if (frame.role === 'user') this.#removeReceived(frame)
    else if (round) {
      const hadDraft = this.#removeDraft(round)
      round.isAnswered = true
      round.isCut = frame.isPartial
      if (!round.isOver) this.#showStatus(round, '')
      return this.#addMessage(frame, hadDraft)
    }
    return this.#addMessage(frame)
  }

  /** After an answer its text is no draft: the message has replaced it. */
  showDraft({ turn_id, from, text, done }: DraftDelta): void {
    const round = this.#round(turn_id)
    if (round.isOver || round.isAnswered) return
    clearTimeout(round.breakTimer)
    if (done) {
      round.isBroken = true
      this.#breakOffLater(round, BREAK_MS)
      return
    }
    if (round.isBroken) this.#breakOff(round)
    if (!round.draft) {
      round.draft = new DraftNode(this.#name, this.#handlers.aroundRender)
      this.#working.append(
        round.draft.node,
        ...[round.statusNode, round.calls?.node].filter((node) => node !== undefined),
      )
    }
    round.draft.replace(from, text)
  }

  /** A status of the agent takes precedence. */
  showActivity({ turn_id, text, calls }: Activity): void {
    const round = this.#round(turn_id)
    if (round.isOver) return
    this.#handlers.aroundRender(() => {
      round.activity.show(text)
      if (calls.length === 0) return
      round.calls ??= new ToolCallList()
      round.calls.add(calls)
      if (!round.calls.node.isConnected) round.statusNode?.after(round.calls.node)
    })
  }

  /** Called for each new stream. A draft that it does not have has broken off. */
  awaitDrafts(): void {
    for (const round of this.#rounds.values()) round.activity.show('')
    for (const round of this.#rounds.values()) if (round.draft) this.#breakOffLater(round, RESUME_MS)
  }

  endRound({ turn_id, topic, status, error, seq }: RoundEnd): void {
    const round = this.#round(turn_id, topic !== this.#topic)
    if (round.isOver) return
    round.isOver = true
    for (const action of this.#actions.get(turn_id) ?? []) action.hidden = false
    round.statusNode?.remove()
    round.calls?.node.remove()
    round.activity.remove()
    this.#removeDraft(round)
    if (status !== 'failed') {
      if (!round.isAnswered && this.#byId.has(turn_id)) this.#addNote(turn_id, seq, 'note', uiText('noAnswer'))
    } else if (!isStopped(error)) this.#addNote(turn_id, seq, 'fault', describeFailure(round.isAnswered, error, TEXTS))
    else if (!round.isCut) this.#addNote(turn_id, seq, 'note', `${uiText('stopped')}.`)
  }

  /** Shows that the answer is being stopped, or again that it is not. */
  showStopping(turn: string, isStopping: boolean): void {
    const round = this.#rounds.get(turn)
    if (!round || round.isOver) return
    round.isStopping = isStopping
    this.#showStatus(round, '')
  }

  /** Shows a message of this page before the server has it. */
  addUnsent(message: UnsentMessage, state: readonly Child[]): void {
    const { key, content, branch, files = [] } = message
    const isLost = hasLostFiles(message)
    const fileNodes = isLost ? [] : this.#handlers.files.nodes(files)
    const node = messageNode({ role: 'user', who: uiText('you'), content, createdAt: '', files: fileNodes })
    node.classList.add('unsent')
    node.append(element('p', { class: 'delivery', dir: 'auto' }, ...state))
    this.#unsent.set(key, { message, node, isReceived: false })
    if (!isLost) this.#list.append(node)
    if (!branch) return
    this.#replaced = branch.of
    this.#hideReplaced()
  }

  /** Whether the stream has delivered a message that is not acknowledged. */
  hasReceived(key: string): boolean {
    return this.#unsent.get(key)?.isReceived === true
  }

  showDelivery(key: string, state: readonly Child[]): void {
    this.#unsent
      .get(key)
      ?.node.querySelector('.delivery')
      ?.replaceChildren(...state)
  }

  /** The server has the message. Does nothing for a message of another topic or one that the stream has delivered. */
  acknowledge(key: string, posted: PostedChatMessage): void {
    const unsent = this.#unsent.get(key)
    if (!unsent) return
    this.#handlers.files.keep(unsent.message.files ?? [], posted.files)
    this.removeUnsent(key)
    if (this.#byId.has(posted.id)) return
    this.#round(posted.id)
    this.#addMessage({
      ...posted,
      kind: 'message',
      role: 'user',
      turn_id: posted.id,
      isPartial: false,
      topic: this.#topic,
      seq: Number.POSITIVE_INFINITY,
    })
  }

  removeUnsent(key: string): void {
    const unsent = this.#unsent.get(key)
    unsent?.node.remove()
    this.#unsent.delete(key)
    if (!unsent?.message.branch) return
    this.#replaced = undefined
    this.#hideReplaced()
  }

  /** Shows at a message why no other version of it was sent; an edited text can be sent again. Returns whether the message is shown. */
  showRefused({ content, branch }: UnsentMessage, reason: string): boolean {
    const node = branch && this.#byId.get(branch.of)?.node
    if (!node) return false
    if (branch.isEdit) this.#edit(branch.of, content)
    node.querySelector('.refused')?.remove()
    node.append(element('p', { class: 'fault refused', dir: 'auto' }, reason))
    return true
  }

  showVersions(versions: readonly TopicVersion[]): void {
    this.#versions = versions
    for (const message of this.#messages.values()) this.#showVersion(message)
  }

  /** Hides a message and what follows it, while another version of it is sent. */
  #hideReplaced(): void {
    const first = this.#replaced === undefined ? undefined : this.#byId.get(this.#replaced)
    const from = first ? this.#entries.indexOf(first) : Number.POSITIVE_INFINITY
    for (const [at, { node }] of this.#entries.entries()) node.hidden = at >= from
  }

  #edit(id: string, content: string): void {
    const node = this.#byId.get(id)?.node
    if (node) openMessageEditor(node, { content, onSend: (text) => this.#branch(id, text, true) })
  }

  #branch(id: string, content: string, isEdit: boolean): boolean {
    const isSent = this.#handlers.onBranch(id, content, isEdit)
    if (isSent) this.#byId.get(id)?.node.querySelector('.refused')?.remove()
    return isSent
  }

  #showVersion({ topic, seq, node }: ShownMessage): void {
    node.querySelector('.versions')?.remove()
    const versions = versionsOf(this.#versions, topic, seq)
    if (versions) node.querySelector('.foot')?.prepend(versionSwitch(versions, (to) => this.#handlers.onVersion(to)))
  }

  #addActions({ id, role, turn_id, content, topic, seq }: ChatFrame, node: HTMLElement): void {
    if (turn_id === '') return
    if (role === 'user') {
      const message = { topic, seq, node }
      this.#messages.set(id, message)
      this.#showVersion(message)
    }
    // A message may consist of files, which a branch repeats.
    if (role === 'user' ? content === '' : !this.#questions.has(turn_id)) return
    const button = element(
      'button',
      { type: 'button', class: 'quiet act' },
      uiText(role === 'user' ? 'edit' : 'answerAgain'),
    )
    button.addEventListener('click', () => {
      if (role === 'user') this.#edit(id, content)
      else this.#branch(turn_id, this.#questions.get(turn_id)?.content ?? '', false)
    })
    const round = this.#rounds.get(turn_id)
    button.hidden = round !== undefined && !round.isOver && !round.isEarlier
    this.#actions.set(turn_id, [...(this.#actions.get(turn_id) ?? []), button])
    node.querySelector('.foot')?.append(button)
  }

  #round(turn: string, isEarlier = false): RoundState {
    const known = this.#rounds.get(turn)
    if (known) return known
    const round: RoundState = {
      isEarlier,
      isOver: false,
      isAnswered: false,
      isCut: false,
      isStopping: false,
      statusNode: undefined,
      activity: new ActivityText(this.#name),
      calls: undefined,
      stopButton: element(
        'button',
        { type: 'button', class: 'quiet', 'aria-label': uiText('stopAnswer') },
        uiText('stop'),
      ),
      draft: undefined,
      isBroken: false,
      breakTimer: undefined,
    }
    this.#rounds.set(turn, round)
    round.stopButton.addEventListener('click', () => this.#handlers.onStop(turn))
    this.#showStatus(round, '')
    return round
  }

  #showStatus(round: RoundState, text: string): void {
    if (round.isEarlier) return
    const dots = element('span', { class: 'dots', 'aria-hidden': 'true' }, element('i'), element('i'), element('i'))
    if (round.isStopping) text = uiText('stopping')
    const status = text ? [element('span', { dir: 'auto' }, text)] : round.activity.nodes
    round.statusNode ??= element('p', { class: 'status' })
    round.statusNode.replaceChildren(dots, ...status, ...(round.isStopping ? [] : [round.stopButton]))
    if (!round.draft) this.#working.append(round.statusNode, ...(round.calls ? [round.calls.node] : []))
  }

  #breakOffLater(round: RoundState, ms: number): void {
    clearTimeout(round.breakTimer)
    round.breakTimer = setTimeout(() => this.#breakOff(round), ms)
  }

  #breakOff(round: RoundState): void {
    round.isBroken = false
    if (this.#removeDraft(round)) this.#showStatus(round, uiText('brokenOff'))
  }

  /** Whether there was one. */
  #removeDraft(round: RoundState): boolean {
    const { draft } = round
    clearTimeout(round.breakTimer)
    draft?.remove()
    round.draft = undefined
    return draft !== undefined
  }

  /** Removes the unsent node of a message that the stream delivers before the post is answered. */
  #removeReceived({ id, content, files, seq }: ChatFrame): void {
    if (this.#byId.has(id)) return
    const found = [...this.#unsent.values()].find(
      ({ message, isReceived }) =>
        !isReceived &&
        !message.branch &&
        message.after < seq &&
        message.content === content &&
        hasSameSizes(message.files ?? [], files),
    )
    if (!found) return
    found.isReceived = true
    this.#handlers.files.keep(found.message.files ?? [], files)
    found.node.remove()
  }

  /** One that replaces a draft is shown whole, as the draft was. */
  #addMessage(frame: ChatFrame, isWhole = false): boolean {
    const { id, role, content, created_at: createdAt, seq, isPartial, files } = frame
    const known = this.#byId.get(id)
    const message = this.#messages.get(id)
    if (message && message.seq > seq) {
      this.#messages.set(id, { ...message, seq })
      this.#showVersion({ ...message, seq })
    }
    // A posted message has no position until the stream delivers it.
    if (known && !(known.seq > seq)) return false
    if (known) this.#entries.splice(this.#entries.indexOf(known), 1)
    const node =
      known?.node ??
      messageNode({
        role,
        who: role === 'user' ? uiText('you') : this.#name,
        content,
        createdAt,
        isWhole,
        isPartial,
        files: this.#handlers.files.nodes(files),
      })
    if (role === 'user') this.#questions.set(id, { content, hasFiles: files.length > 0 })
    if (!known) this.#addActions(frame, node)
    this.#insert({ seq, node }, id)
    return !known && role === 'assistant'
  }

  #addNote(turn: string, seq: number, className: string, text: string): void {
    const node = element('p', { class: className, dir: 'auto' }, text)
    const question = this.#questions.get(turn)
    if (question !== undefined && className === 'fault') {
      const retry = element('button', { type: 'button', class: 'more' }, uiText('tryAgain'))
      retry.addEventListener('click', () => {
        // Only the server still has the files, and a branch repeats them.
        if (question.hasFiles) this.#branch(turn, question.content, false)
        else if (this.#handlers.onRetry(question.content)) retry.remove()
      })
      node.append(' ', retry)
    }
    this.#insert({ seq, node }, `${turn} end`)
  }

  #insert(entry: LogEntry, id: string): void {
    const before = this.#entries.findLastIndex(({ seq }) => seq <= entry.seq)
    const previous = this.#entries[before]?.node
    this.#entries.splice(before + 1, 0, entry)
    this.#byId.set(id, entry)
    if (this.isReplacing) this.#hideReplaced()
    // A screen reader would read a node again that is inserted at its own position.
    if (entry.node.isConnected && entry.node.previousElementSibling === (previous ?? null)) return
    if (previous) previous.after(entry.node)
    else this.#list.prepend(entry.node)
  }
}

/** The server may change the names. */
function hasSameSizes(some: readonly FrameFile[], others: readonly FrameFile[]): boolean {
  return some.length === others.length && some.every(({ size }, at) => size === others[at]?.size)
}
