// Shows why the chat does not work. A refusal stays until the next message; a connection problem until the connection is back.
import { type Child, element } from './nodes.ts'

export class Notice {
  readonly #node: HTMLElement
  #kind: 'refusal' | 'connection' | undefined
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(node: HTMLElement) {
    this.#node = node
  }

  showRefusal(...children: readonly Child[]): void {
    this.#show('refusal', children)
  }

  /** Counts down, then clears the notice. */
  showCountdown(reason: string, seconds: number, done: () => void): void {
    const until = Date.now() + seconds * 1_000
    // Hidden from screen readers, which would read it every second.
    const clock = element('span', { 'aria-hidden': 'true' })
    this.showRefusal(
      `${reason} Your message is kept; you can send it `,
      clock,
      element('span', { class: 'hidden' }, 'in a moment.'),
    )
    const tick = (): void => {
      const left = Math.ceil((until - Date.now()) / 1_000)
      if (left > 0) clock.textContent = `in ${left} s.`
      else {
        this.clear()
        done()
      }
    }
    this.#timer = setInterval(tick, 250)
    tick()
  }

  /** Clears the notice if there is no problem. A refusal takes precedence. */
  showConnectionProblem(text: string | undefined): void {
    if (this.#kind === 'refusal') return
    if (text === undefined) this.clear()
    else this.#show('connection', [text])
  }

  clear(): void {
    clearInterval(this.#timer)
    this.#kind = undefined
    this.#node.hidden = true
  }

  #show(kind: 'refusal' | 'connection', children: readonly Child[]): void {
    clearInterval(this.#timer)
    this.#kind = kind
    this.#node.replaceChildren(element('p', { dir: 'auto' }, ...children))
    this.#node.hidden = false
  }
}
