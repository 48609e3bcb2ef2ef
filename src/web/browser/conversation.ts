// What the log shows of one topic: messages in the order of the link, and for each round that is not over what it does.
import type { ChatFrame, PostedChatMessage, RoundEnd } from './link.ts'
import { messageNode } from './message.ts'
import { element } from './nodes.ts'

interface Item {
  readonly seq: number
  readonly node: HTMLElement
}

interface UnsentItem {
  readonly content: string
  readonly node: HTMLElement
  claimed: boolean
}

interface RoundState {
  over: boolean
  answered: boolean
  line: HTMLElement | undefined
}

export class ConversationView {
  readonly node: HTMLElement
  readonly #name: string
  readonly #list = element('div', { class: 'list' })
  readonly #working = element('div', { class: 'working' })
  /** In their order. */
  readonly #items: Item[] = []
  readonly #byId = new Map<string, Item>()
  /** By their keys, until the server says what they are called there. */
  readonly #unsent = new Map<string, UnsentItem>()
  readonly #rounds = new Map<string, RoundState>()

  constructor(name: string) {
    this.#name = name
    this.node = element('div', { class: 'conversation' }, this.#list, this.#working)
  }

  get isEmpty(): boolean {
    return this.#items.length === 0
  }

  /** Rounds that have no end yet. */
  get pendingRounds(): string[] {
    return [...this.#rounds].filter(([, { over }]) => !over).map(([turn]) => turn)
  }

  /** True when there is something new to read. */
  addFrame(frame: ChatFrame): boolean {
    const round = frame.turn_id ? this.#round(frame.turn_id) : undefined
    if (frame.kind === 'status') {
      if (round && !round.over) this.#say(round, frame.content)
      return false
    }
    if (frame.role === 'user') this.#claim(frame)
    else if (round) {
      round.answered = true
      if (!round.over) this.#say(round, '')
    }
    return this.#put(frame)
  }

  endRound({ turn_id, status, error, seq }: RoundEnd): void {
    const round = this.#round(turn_id)
    if (round.over) return
    round.over = true
    round.line?.remove()
    const failed = status === 'failed'
    if (failed)
      this.#note(
        turn_id,
        seq,
        'fault',
        `${round.answered ? 'The answer broke off' : 'There is no answer'}: ${error ?? 'the round failed'}`,
      )
    else if (!round.answered && this.#byId.has(turn_id)) this.#note(turn_id, seq, 'note', 'There is no answer to this.')
  }

  /** A message of this page, shown before the server knows it. */
  addUnsent(key: string, content: string): void {
    const node = messageNode({ role: 'user', who: 'You', content, createdAt: '' })
    node.classList.add('unsent')
    const state = element('p', { class: 'delivery' }, 'Sending …')
    node.append(state)
    this.#unsent.set(key, { content, node, claimed: false })
    this.#list.append(node)
  }

  /** What hinders it. */
  showDeliveryProblem(key: string, ...children: (Node | string)[]): void {
    this.#unsent
      .get(key)
      ?.node.querySelector('.delivery')
      ?.replaceChildren(...children)
  }

  /** The server has it. The stream may have said so first; a message of another topic is none of this one. */
  acknowledge(key: string, posted: PostedChatMessage): void {
    if (!this.#unsent.has(key)) return
    this.removeUnsent(key)
    if (this.#byId.has(posted.id)) return
    this.#round(posted.id)
    this.#put({ ...posted, kind: 'message', role: 'user', turn_id: posted.id, seq: Number.POSITIVE_INFINITY })
  }

  removeUnsent(key: string): void {
    this.#unsent.get(key)?.node.remove()
    this.#unsent.delete(key)
  }

  #round(turn: string): RoundState {
    const known = this.#rounds.get(turn)
    if (known) return known
    const round: RoundState = { over: false, answered: false, line: undefined }
    this.#rounds.set(turn, round)
    this.#say(round, '')
    return round
  }

  #say(round: RoundState, words: string): void {
    const dots = element('span', { class: 'dots', 'aria-hidden': 'true' }, element('i'), element('i'), element('i'))
    const said = words
      ? element('span', { dir: 'auto' }, words)
      : element('span', { class: 'hidden' }, `${this.#name} is working`)
    round.line ??= element('p', { class: 'status' })
    round.line.replaceChildren(dots, said)
    this.#working.append(round.line)
  }

  /** A message of this page came by the stream before the answer to its post did. */
  #claim({ id, content }: ChatFrame): void {
    if (this.#byId.has(id)) return
    const found = [...this.#unsent.values()].find((unsent) => unsent.content === content && !unsent.claimed)
    if (!found) return
    found.claimed = true
    found.node.remove()
  }

  #put(frame: ChatFrame): boolean {
    const { id, role, content, created_at: createdAt, seq } = frame
    const known = this.#byId.get(id)
    // What was posted or polled gets its place from the stream.
    if (known && !(known.seq > seq)) return false
    if (known) this.#items.splice(this.#items.indexOf(known), 1)
    const node = known?.node ?? messageNode({ role, who: role === 'user' ? 'You' : this.#name, content, createdAt })
    this.#place({ seq, node }, id)
    return !known && role === 'assistant'
  }

  #note(turn: string, seq: number, className: string, words: string): void {
    this.#place({ seq, node: element('p', { class: className, dir: 'auto' }, words) }, `${turn} end`)
  }

  #place(item: Item, id: string): void {
    const before = this.#items.findLastIndex(({ seq }) => seq <= item.seq)
    const previous = this.#items[before]?.node
    this.#items.splice(before + 1, 0, item)
    this.#byId.set(id, item)
    // A node that is put where it stands would be read out again.
    if (item.node.isConnected && item.node.previousElementSibling === (previous ?? null)) return
    if (previous) previous.after(item.node)
    else this.#list.prepend(item.node)
  }
}
