// A model of an instance as plain data: messages with their states, conversations with one turn at a time, leased turns, tasks
// and costs. It contains the rules, not their implementation.
import { containsFolder, selfAndAncestors } from '../../src/core/access/tiers.ts'
import type { InboxOutcome, InboxState } from '../../src/core/messages/inbox.ts'

export const LEASE_MS = 10_000
const ENGAGED_MS = 30 * 60_000
const BREAK_MS = 60_000
const POSTPONE_MAX_MS = 300_000

/** A message that arrived. */
export interface ModelMessage {
  readonly id: string
  readonly jid: string
  /** The topic of the chat. */
  readonly chatTopic: string
  readonly sender: string
  readonly text: string
  /** The folder that it is addressed to; absent in a room. */
  readonly to?: string | undefined
  readonly hasRound: boolean
  readonly task?: { readonly id: string; readonly isIsolated: boolean } | undefined
  readonly delegated?: { readonly from: string; readonly jid: string; readonly topic: string } | undefined
  state: 'unfiled' | 'unrouted' | InboxState
  folder?: string | undefined
  topic: string
  turn?: string | undefined
  waitsFor?: string | undefined
  /** Number of retries by a person. */
  retries?: number
  /** Texts for the client that waits for it; undefined if the text is not specified. */
  readonly frames: (string | undefined)[]
}

export interface Conversation {
  readonly folder: string
  readonly topic: string
  /** Ids of waiting messages, oldest first. */
  readonly waiting: string[]
  turn?: string | undefined
  session?: string | undefined
  resetTurn?: string | undefined
}

export interface BudgetCap {
  readonly by: 'folder' | 'person'
  readonly who: string
  readonly cap: number
}

/** A turn that has not ended. */
export interface OpenTurn {
  readonly id: string
  readonly folder: string
  readonly topic: string
  readonly jid: string
  readonly chatTopic: string
  readonly ids: readonly string[]
  readonly depth: number
  readonly isTimed: boolean
  readonly isIsolated: boolean
  readonly person?: string | undefined
  state: 'running' | 'retrying'
  fence: number
  attempts: number
  deaths: number
  leasedUntil: number
  runAfter: number
  replies: number
  submitted?: 'success' | 'error' | undefined
  isRefused: boolean
  isStopping: boolean
  /** Limit on its cost; what is not booked of it is reserved. */
  money?: number | undefined
}

export interface Task {
  readonly id: string
  readonly owner: string
  readonly jid: string
  readonly cron?: string | undefined
  readonly isIsolated: boolean
  status: 'active' | 'paused' | 'completed'
  next?: number | undefined
}

export interface Route {
  readonly id: number
  readonly seq: number
  /** The rooms that it matches; all if absent. */
  readonly room?: string | undefined
  readonly target: string
}

interface Cost {
  readonly folder: string
  readonly person?: string | undefined
  readonly turn: string
  readonly cents: number
  readonly at: number
  /** Recorded as the cost of the turn itself. */
  readonly isBooked: boolean
}

export interface TurnLease {
  readonly id: string
  readonly fence: number
  readonly folder: string
}

export const isEnd = (state: ModelMessage['state']): state is InboxOutcome =>
  !['unfiled', 'unrouted', 'waiting', 'running', 'delegated'].includes(state)
export const isLink = (jid: string): boolean => /^(web|hook):/.test(jid)
const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10)
const ACCOUNT = /^github:/

export class Model {
  readonly turnsMax: number
  readonly turnsPerFolder: number
  readonly messages: ModelMessage[] = []
  readonly conversations = new Map<string, Conversation>()
  readonly turns = new Map<string, OpenTurn>()
  readonly ended = new Set<string>()
  /** All turns that were ever claimed, with their fence. */
  readonly leases: TurnLease[] = []
  /** Registered folders and their caps. */
  readonly groups = new Map<string, number | undefined>()
  readonly people = new Map<string, number>()
  readonly costs: Cost[] = []
  readonly tasks = new Map<string, Task>()
  readonly slots = new Set<string>()
  routes: Route[] = []
  wasSetBack = false
  readonly #engaged = new Map<string, { folder: string; until: number }>()
  readonly #failures = new Map<string, { count: number; openUntil: number }>()
  readonly #served = new Map<string, number>()
  #turnsStarted = 0

  constructor({ turnsMax, turnsPerFolder }: { turnsMax: number; turnsPerFolder: number }) {
    this.turnsMax = turnsMax
    this.turnsPerFolder = turnsPerFolder
  }

  message(id: string): ModelMessage {
    const found = this.messages.find((each) => each.id === id)
    if (!found) throw new Error(`the model knows no message ${id}`)
    return found
  }

  receive(message: Omit<ModelMessage, 'frames' | 'topic' | 'state'>): void {
    this.messages.push({ ...message, topic: '', state: 'unfiled', frames: [] })
  }

  fileAll(): void {
    for (const each of this.messages) if (each.state === 'unfiled') each.state = 'unrouted'
  }

  conversation(folder: string, topic: string): Conversation {
    const key = JSON.stringify([folder, topic])
    const known = this.conversations.get(key) ?? { folder, topic, waiting: [] }
    this.conversations.set(key, known)
    return known
  }

  // Routing

  routeAll(now: number): void {
    for (const each of this.messages) if (each.state === 'unrouted') this.#route(each, now)
  }

  #route(message: ModelMessage, now: number): ModelMessage {
    if (message.to === undefined) return this.#routeRoom(message, now)
    const topic = message.task?.isIsolated ? `timed:${message.task.id}` : conversationOf(message, message.chatTopic)
    if (!this.groups.has(message.to)) {
      message.topic = topic
      if (message.jid.startsWith('web:')) this.#frame(message, undefined)
      return this.#end(message, 'failed')
    }
    if (!message.jid.startsWith('web:') || message.task) return this.#wait(message, message.to, topic)
    return this.#steer(message, message.to, topic)
  }

  #routeRoom(message: ModelMessage, now: number): ModelMessage {
    const route = this.routes
      .toSorted((a, b) => a.seq - b.seq || a.id - b.id)
      .find(({ room }) => room === undefined || message.jid === `sandbox:${room}`)
    const [target = '', fragment] = route?.target.split('#') ?? []
    const engaged = this.#engaged.get(message.jid)
    const isEngaged = engaged !== undefined && engaged.until > now && this.groups.has(engaged.folder)
    const holder = isEngaged ? engaged.folder : this.groups.has(target) ? target : undefined
    if (holder === undefined) {
      if (!route) return this.#end(message, 'onboarding')
      if (target === 'daemon:mail') return this.#end(message, 'observed')
      return this.#end(message, target === 'builtin:drop' ? 'silent' : 'failed')
    }
    const topic = fragment !== undefined && fragment !== 'observe' && target === holder ? fragment : ''
    if (isEngaged || fragment !== 'observe') return this.#steer(message, holder, topic)
    if (message.text.startsWith('/')) return this.#steer(message, holder, topic)
    message.folder = holder
    message.topic = topic
    return this.#end(message, 'observed')
  }

  /** Handles commands and topic prefixes. */
  #steer(message: ModelMessage, folder: string, topic: string): ModelMessage {
    const [word = '', ...rest] = message.text.split(' ')
    if (word.startsWith('#')) return this.#wait(message, folder, conversationOf(message, word.slice(1)))
    if (!word.startsWith('/')) return this.#wait(message, folder, topic)
    if (word === '/new') {
      const conversation = this.conversation(folder, topic)
      conversation.session = undefined
      conversation.resetTurn = conversation.turn
      if (rest.length > 0) return this.#wait(message, folder, topic)
    }
    if (word === '/stop')
      for (const turn of this.turns.values())
        if (turn.jid === message.jid && turn.chatTopic === message.chatTopic)
          Object.assign(turn, { isStopping: true, runAfter: 0 })
    message.folder = folder
    message.topic = topic
    this.#frame(message, undefined)
    return this.#end(message, 'answered')
  }

  #wait(message: ModelMessage, folder: string, topic: string): ModelMessage {
    Object.assign(message, { folder, topic, state: 'waiting' })
    this.conversation(folder, topic).waiting.push(message.id)
    return message
  }

  /** Messages that a person can retry. */
  listRetryable(): ModelMessage[] {
    return this.messages.filter(
      ({ state, folder }) =>
        (state === 'failed' || state === 'refused') && folder !== undefined && this.groups.has(folder),
    )
  }

  /** The message waits at its old place, and the folder no longer pauses. */
  retry(message: ModelMessage): void {
    const { folder = '', topic } = message
    Object.assign(message, { turn: undefined, retries: (message.retries ?? 0) + 1 })
    this.#wait(message, folder, topic)
    const order = (id: string): number => this.messages.findIndex((each) => each.id === id)
    this.conversation(folder, topic).waiting.sort((one, other) => order(one) - order(other))
    if (this.#failures.has(folder)) this.#failures.set(folder, { count: 0, openUntil: 0 })
  }

  /** The end of a message is also the end for messages that wait for it. */
  #end(message: ModelMessage, outcome: InboxOutcome): ModelMessage {
    message.state = outcome
    message.waitsFor = undefined
    for (const each of this.messages) if (each.waitsFor === message.id) this.#end(each, outcome)
    return message
  }

  #frame(message: ModelMessage, text: string | undefined): void {
    if (message.hasRound && !isEnd(message.state)) message.frames.push(text)
  }

  // Turns

  /** Whether the limits allow one more turn of the folder. */
  hasRoomFor(folder: string, now: number): boolean {
    const open = [...this.turns.values()]
    // A lease from before the clock was set back is corrected when it is read.
    for (const turn of open) turn.leasedUntil = Math.min(turn.leasedUntil, now + LEASE_MS)
    const live = open.filter((turn) => turn.state === 'running' && turn.leasedUntil > now)
    return live.length < this.turnsMax && live.filter((turn) => turn.folder === folder).length < this.turnsPerFolder
  }

  /** The turns that can be claimed now: retries first, else new ones, by their first message. */
  claimable(now: number): { readonly again: readonly OpenTurn[]; readonly fresh: readonly Conversation[] } {
    const open = [...this.turns.values()]
    const isFree = (folder: string): boolean => this.hasRoomFor(folder, now) && !this.isBroken(folder, now)
    const again = open.filter((turn) => isFree(turn.folder) && this.#isDue(turn, now))
    if (again.length > 0) return { again, fresh: [] }
    const waiting = [...this.conversations.values()].filter(
      ({ folder, waiting, turn }) => waiting.length > 0 && turn === undefined && isFree(folder),
    )
    const byFolder = [...Map.groupBy(waiting, ({ folder }) => folder)].toSorted(
      ([one], [other]) => this.served(one) - this.served(other) || (one < other ? -1 : 1),
    )
    const free: Conversation[] = []
    // While turns have reserved the rest of a cap, all folders under it wait, also one whose turn would be refused.
    const reserved: string[] = []
    for (const [folder, of] of byFolder) {
      if (reserved.some((who) => containsFolder(who, folder))) continue
      const first = this.#firstFree(of, now)
      if (typeof first === 'string') reserved.push(first)
      else if (first) free.push(first)
    }
    const served = Math.min(...free.map(({ folder }) => this.served(folder)))
    return { again, fresh: free.filter(({ folder }) => this.served(folder) === served) }
  }

  #isDue(turn: OpenTurn, now: number): boolean {
    if (turn.state === 'retrying') return !isAhead(turn.runAfter, now, POSTPONE_MAX_MS)
    return turn.leasedUntil + 1000 * turn.deaths ** 2 <= now
  }

  /** The time when all open work can be claimed and no folder is blocked. */
  allDueAt(): number {
    const ends = [...this.turns.values()].map((turn) =>
      Math.max(turn.runAfter, turn.leasedUntil + 1000 * turn.deaths ** 2),
    )
    return Math.max(0, ...ends, ...[...this.#failures.values()].map(({ openUntil }) => openUntil))
  }

  /**
   * The conversation of a folder that waits longest and has budget: the budget of one person does not block others. Or the folder
   * whose cap is reserved.
   */
  #firstFree(of: readonly Conversation[], now: number): Conversation | string | undefined {
    const order = ({ waiting: [id] }: Conversation): number => this.messages.findIndex((each) => each.id === id)
    for (const conversation of of.toSorted((one, other) => order(one) - order(other))) {
      const reserved = this.#reservedBy(conversation, now)
      if (reserved === undefined) return conversation
      if (reserved.by === 'folder') return reserved.who
    }
    return undefined
  }

  served(folder: string): number {
    return this.#served.get(folder) ?? 0
  }

  /** The messages of a conversation that form one turn. */
  group({ waiting }: Conversation): ModelMessage[] {
    const all = waiting.map((id) => this.message(id))
    const [first] = all
    if (!first) return []
    const isAlone = (message: ModelMessage): boolean => message.task !== undefined || message.delegated !== undefined
    const end = all.findIndex(
      (next, at) =>
        at > 0 &&
        (isAlone(first) ||
          isAlone(next) ||
          next.jid !== first.jid ||
          next.chatTopic !== first.chatTopic ||
          next.sender !== first.sender),
    )
    return end < 0 ? all : all.slice(0, end)
  }

  personOf(conversation: Conversation): string | undefined {
    const sender = this.group(conversation).at(-1)?.sender
    return sender !== undefined && ACCOUNT.test(sender) ? sender : undefined
  }

  /** The caps of the folders above, outermost first, of the folder, and of the person. */
  standings(folder: string, person: string | undefined): BudgetCap[] {
    const own = person === undefined ? undefined : this.people.get(person)
    const folders = selfAndAncestors(folder).flatMap((who) => {
      const cap = this.groups.get(who)
      return cap === undefined ? [] : [{ by: 'folder' as const, who, cap }]
    })
    return [
      ...folders,
      ...(own === undefined || person === undefined ? [] : [{ by: 'person' as const, who: person, cap: own }]),
    ]
  }

  #isUnder({ by, who }: BudgetCap, { folder, person }: Pick<OpenTurn, 'folder' | 'person'>): boolean {
    return by === 'folder' ? containsFolder(who, folder) : person === who
  }

  spent(cap: BudgetCap, now: number): number {
    return this.costs
      .filter((cost) => this.#isUnder(cap, cost) && dayOf(cost.at) >= dayOf(now))
      .reduce((sum, { cents }) => sum + cents, 0)
  }

  isExhausted(folder: string, person: string | undefined, now: number): boolean {
    return this.standings(folder, person).some((standing) => this.spent(standing, now) > standing.cap)
  }

  /** 25 % of the unspent amount of each cap, at least one cent. */
  #money(folder: string, person: string | undefined, now: number, except?: OpenTurn): number | undefined {
    const shares = this.standings(folder, person).map((cap) => {
      const left = cap.cap - this.spent(cap, now) - this.#reserved(cap, except)
      return left <= 0 ? 0 : Math.max(1, Math.floor(left / 4))
    })
    return shares.length === 0 ? undefined : Math.min(...shares)
  }

  #reserved(cap: BudgetCap, except?: OpenTurn): number {
    return [...this.turns.values()]
      .filter((turn) => turn !== except && this.#isUnder(cap, turn))
      .reduce((sum, turn) => sum + Math.max(0, (turn.money ?? Number.POSITIVE_INFINITY) - this.#booked(turn)), 0)
  }

  #booked({ id }: OpenTurn): number {
    return this.costs.filter((cost) => cost.turn === id && cost.isBooked).reduce((sum, { cents }) => sum + cents, 0)
  }

  isBroken(folder: string, now: number): boolean {
    return isAhead(this.#failures.get(folder)?.openUntil ?? 0, now, BREAK_MS)
  }

  #reservedBy(conversation: Conversation, now: number): BudgetCap | undefined {
    const { folder } = conversation
    const person = this.personOf(conversation)
    if (this.isExhausted(folder, person, now)) return undefined
    const open = [...this.turns.values()]
    return this.standings(folder, person).find(
      (cap) =>
        open.some((turn) => this.#isUnder(cap, turn)) && cap.cap - this.spent(cap, now) - this.#reserved(cap) <= 0,
    )
  }

  begin(conversation: Conversation, now: number): OpenTurn {
    const { folder, topic } = conversation
    const asked = this.group(conversation)
    const person = this.personOf(conversation)
    const last = asked.at(-1)
    if (!last) throw new Error('nothing waits there')
    const isRefused = this.isExhausted(folder, person, now)
    const turn: OpenTurn = {
      id: last.retries === undefined ? last.id : `${last.id}.${last.retries}`,
      folder,
      topic,
      jid: last.delegated?.jid ?? last.jid,
      chatTopic: last.delegated ? last.delegated.topic : last.chatTopic,
      ids: asked.map(({ id }) => id),
      depth: last.delegated ? 1 : 0,
      isTimed: last.task !== undefined,
      isIsolated: last.task?.isIsolated ?? false,
      person,
      state: 'running',
      fence: 1,
      attempts: 1,
      deaths: 0,
      leasedUntil: now + LEASE_MS,
      runAfter: 0,
      replies: 0,
      isRefused,
      isStopping: false,
      money: isRefused ? 0 : this.#money(folder, person, now),
    }
    for (const message of asked) {
      message.state = 'running'
      message.turn = turn.id
      for (const each of this.messages) if (each.waitsFor === message.id) each.turn = turn.id
    }
    conversation.waiting.splice(0, asked.length)
    conversation.turn = turn.id
    this.turns.set(turn.id, turn)
    this.#served.set(folder, ++this.#turnsStarted)
    this.#engage(turn, now)
    this.leases.push(turn)
    return turn
  }

  beginAgain(turn: OpenTurn, now: number): void {
    if (turn.state === 'retrying') turn.attempts++
    else turn.deaths++
    turn.state = 'running'
    turn.fence++
    turn.leasedUntil = now + LEASE_MS
    turn.isRefused = this.isExhausted(turn.folder, turn.person, now)
    const share = this.#money(turn.folder, turn.person, now, turn)
    if (!turn.isRefused) turn.money = share === undefined ? undefined : share + this.#booked(turn)
    this.leases.push({ id: turn.id, fence: turn.fence, folder: turn.folder })
  }

  /** Turns that their last owner still has. */
  listOwned(): OpenTurn[] {
    return [...this.turns.values()].filter(({ state }) => state === 'running')
  }

  /** Leases whose owners have lost their turn. */
  listLost(): TurnLease[] {
    return this.leases.filter(({ id, fence }) => {
      const turn = this.turns.get(id)
      return turn?.state !== 'running' || turn.fence !== fence
    })
  }

  /** The model delivers nothing, so outgoing messages use no storage. */
  reply(turn: OpenTurn, text: string, { isStatus = false }: { isStatus?: boolean } = {}): void {
    this.#frames(turn, text)
    if (!isStatus) turn.replies++
  }

  /** The turn that delegated the question may still have open rounds. */
  #frames(turn: OpenTurn, text: string | undefined): void {
    const askers = turn.ids.map((id) => this.message(id).delegated?.from)
    for (const message of this.messages)
      if (message.jid === turn.jid && (message.turn === turn.id || (message.turn && askers.includes(message.turn))))
        this.#frame(message, text)
  }

  /** A room stays with the folder that replies there, but not after a schedule or a delegation. */
  #engage({ jid, folder, isTimed, depth }: OpenTurn, now: number): void {
    if (!isTimed && depth === 0 && !isLink(jid) && jid.includes(':'))
      this.#engaged.set(jid, { folder, until: now + ENGAGED_MS })
  }

  submit(turn: OpenTurn, { status, result, session }: ModelSubmission): void {
    if (turn.submitted !== undefined) return
    turn.submitted = status
    const conversation = this.conversation(turn.folder, turn.topic)
    if (conversation.resetTurn !== turn.id) conversation.session = session
    if (status === 'success' && result !== '' && turn.replies === 0 && !turn.isIsolated) this.reply(turn, result)
  }

  spend({ id, folder, person }: OpenTurn, cents: number, at: number, isBooked: boolean): void {
    this.costs.push({ folder, person, turn: id, cents, at, isBooked })
  }

  /** An expired lease may be valid again, and costs of yesterday may be of today. */
  setBack(): void {
    this.wasSetBack = true
  }

  end(turn: OpenTurn, outcome: InboxOutcome, now: number): void {
    const own = this.messages.filter((each) => each.turn === turn.id && !isEnd(each.state))
    // A waiting client reads the result there; otherwise the chat is notified.
    const isTold = outcome === 'failed' || outcome === 'refused'
    if (isTold && !(isLink(turn.jid) && own.some(({ hasRound }) => hasRound))) this.#frames(turn, undefined)
    const heir = this.messages.findLast(({ delegated, state }) => delegated?.from === turn.id && !isEnd(state))
    if (outcome === 'silent' && heir) {
      const adopter = heir.state === 'running' ? heir.turn : undefined
      for (const each of own) Object.assign(each, { state: 'delegated', waitsFor: heir.id, turn: adopter })
    } else for (const each of own) if (!isEnd(each.state)) this.#end(each, outcome)
    this.conversation(turn.folder, turn.topic).turn = undefined
    this.turns.delete(turn.id)
    this.ended.add(turn.id)
    if (outcome === 'refused') return
    const count = outcome === 'failed' ? (this.#failures.get(turn.folder)?.count ?? 0) + 1 : 0
    this.#failures.set(turn.folder, { count, openUntil: count >= 3 ? now + BREAK_MS : 0 })
  }

  // Tasks

  due(now: number): Task[] {
    return [...this.tasks.values()].filter(
      ({ status, next }) => status === 'active' && next !== undefined && next <= now,
    )
  }
}

export interface ModelSubmission {
  readonly status: 'success' | 'error'
  readonly result: string
  readonly session: string
}

/** Visitors have their own conversations; here, tasks in their chat belong to the operator. */
function conversationOf({ jid, sender }: ModelMessage, topic: string): string {
  return jid.startsWith('web:') && sender.startsWith('anon:') ? `visitor:${jid}#${topic}` : topic
}

/** Nothing is postponed for longer than its maximum, except if the clock was set back. */
function isAhead(at: number, now: number, maxMs: number): boolean {
  return at > now && at <= now + maxMs
}
