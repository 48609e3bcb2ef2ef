// What the agent does while it works on an answer. People who may see its tool calls can open them.
import { translate } from '../text/wording.ts'
import { element } from './nodes.ts'
import { TEXTS, uiText } from './texts.ts'

export interface ToolCall {
  readonly n: number
  readonly tool: string
  readonly args: string
  readonly state: string
  readonly ms: number | undefined
}

export interface Activity {
  readonly turn_id: string
  /** Empty: nothing now. */
  readonly text: string
  readonly calls: readonly ToolCall[]
}

const CALLS_SHOWN = 50
/** Screen readers are told of a change at most this often. */
const SPOKEN_EVERY_MS = 5000

/** The phrase beside the dots of a status. Screen readers get it from a hidden text, which changes less often. */
export class ActivityText {
  readonly nodes: readonly HTMLElement[]
  readonly #name: string
  readonly #seen = element('span', { class: 'doing', dir: 'auto', 'aria-hidden': 'true' })
  readonly #spoken = element('span', { class: 'hidden' })
  #spokenAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(name: string) {
    this.#name = name
    this.nodes = [this.#seen, this.#spoken]
    this.#spoken.textContent = uiText('working', { name })
  }

  show(text: string): void {
    this.#seen.textContent = text === '' ? '' : `${translate(text, TEXTS.phrases)} …`
    if (text !== '')
      this.#timer ??= setTimeout(() => this.#speak(), this.#spokenAt + SPOKEN_EVERY_MS - performance.now())
  }

  remove(): void {
    clearTimeout(this.#timer)
  }

  #speak(): void {
    this.#timer = undefined
    this.#spokenAt = performance.now()
    const text = this.#seen.textContent || uiText('working', { name: this.#name })
    if (this.#spoken.textContent !== text) this.#spoken.textContent = text
  }
}

/** The tool calls of a running turn, folded. */
export class ToolCallList {
  readonly node: HTMLElement
  readonly #summary = element('summary')
  readonly #list = element('ol')
  readonly #calls = new Map<number, HTMLElement>()

  constructor() {
    this.node = element('details', { class: 'calls', 'aria-live': 'off' }, this.#summary, this.#list)
  }

  add(calls: readonly ToolCall[]): void {
    // Another try of the turn counts from the beginning.
    if (Math.max(...calls.map(({ n }) => n)) < Math.max(...this.#calls.keys())) {
      this.#calls.clear()
      this.#list.replaceChildren()
    }
    for (const call of calls) {
      const node = this.#calls.get(call.n) ?? element('li')
      if (!this.#calls.has(call.n)) this.#list.append(node)
      this.#calls.set(call.n, node)
      const [state, { ms }] = [translate(call.state, TEXTS.phrases), call]
      const outcome = ms === undefined ? state : uiText('callTook', { state, ms })
      node.replaceChildren(element('code', {}, call.tool), ` ${outcome}`, element('pre', {}, call.args))
    }
    const oldest = [...this.#calls].slice(0, Math.max(0, this.#calls.size - CALLS_SHOWN))
    for (const [n, node] of oldest) {
      node.remove()
      this.#calls.delete(n)
    }
    this.#summary.textContent = uiText('toolCalls', { count: Math.max(...this.#calls.keys()) })
  }
}
