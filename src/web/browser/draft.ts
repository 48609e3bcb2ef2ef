// The text that the agent is writing, in the place of the message that will replace it.
import { element } from './nodes.ts'
import { renderProse } from './prose.ts'

/** Rendering takes at most a fifth of the time. */
const PAUSE_FACTOR = 4

export class DraftNode {
  readonly node: HTMLElement
  readonly #body = element('div', { class: 'prose' })
  readonly #aroundRender: (render: () => void) => void
  /** Code points, because the server counts them. */
  #text: string[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #renderAfter = 0

  /** `aroundRender` is called with the function that renders. */
  constructor(who: string, aroundRender: (render: () => void) => void) {
    this.#aroundRender = aroundRender
    // Screen readers read the message when it is complete.
    this.node = element('article', { class: 'message agent draft', 'aria-live': 'off' })
    this.node.append(element('span', { class: 'hidden' }, `${who}:`), this.#body)
  }

  replace(from: number, text: string): void {
    this.#text.length = Math.min(from, this.#text.length)
    for (const point of text) this.#text.push(point)
    this.#timer ??= setTimeout(() => this.#render(), Math.max(0, this.#renderAfter - performance.now()))
  }

  remove(): void {
    clearTimeout(this.#timer)
    this.node.remove()
  }

  #render(): void {
    this.#timer = undefined
    const started = performance.now()
    this.#aroundRender(() => this.#show(renderProse(this.#text.join(''))))
    const ended = performance.now()
    this.#renderAfter = ended + PAUSE_FACTOR * (ended - started)
  }

  /** Keeps the nodes before the first change, with what the reader has selected in them. */
  #show(nodes: readonly Node[]): void {
    const shown = [...this.#body.childNodes]
    const changed = nodes.findIndex((node, at) => !shown[at]?.isEqualNode(node))
    const kept = changed < 0 ? nodes.length : changed
    for (const node of shown.slice(kept)) node.remove()
    this.#body.append(...nodes.slice(kept))
  }
}
