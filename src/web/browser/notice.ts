// The place where the chat says what hinders it. A refusal stays until the next message; how the line is comes and goes.
import { type Child, element } from './nodes.ts'

export class Notice {
  readonly #node: HTMLElement
  #about: 'refusal' | 'line' | undefined
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(node: HTMLElement) {
    this.#node = node
  }

  showRefusal(...children: readonly Child[]): void {
    this.#show('refusal', children)
  }

  /** Counts down, then goes away. */
  showCountdown(why: string, seconds: number, done: () => void): void {
    const until = Date.now() + seconds * 1_000
    // A screen reader hears the sentence once and not every second.
    const clock = element('span', { 'aria-hidden': 'true' })
    this.showRefusal(
      `${why} Your message is kept; you can send it `,
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

  /** What is wrong with the line, or nothing. It gives way to a refusal. */
  showConnectionProblem(words: string | undefined): void {
    if (this.#about === 'refusal') return
    if (words === undefined) this.clear()
    else this.#show('line', [words])
  }

  clear(): void {
    clearInterval(this.#timer)
    this.#about = undefined
    this.#node.hidden = true
  }

  #show(about: 'refusal' | 'line', children: readonly Child[]): void {
    clearInterval(this.#timer)
    this.#about = about
    this.#node.replaceChildren(element('p', { dir: 'auto' }, ...children))
    this.#node.hidden = false
  }
}
