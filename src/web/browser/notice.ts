// Shows why the chat does not work. A refusal stays until the next message; a connection problem until the connection is back.
import { type Child, element } from './nodes.ts'
import { TEXTS, uiText } from './texts.ts'

const TICK_MS = 250

/** The time in which the server accepts no messages. It does not depend on what the notice shows. */
export class SendingPause {
  #reason = ''
  #until = 0
  #timer: ReturnType<typeof setInterval> | undefined

  get isOn(): boolean {
    return Date.now() < this.#until
  }

  start(reason: string, seconds: number, onEnd: () => void): void {
    this.#reason = reason
    this.#until = Date.now() + seconds * 1_000
    clearInterval(this.#timer)
    this.#timer = setInterval(() => {
      if (this.isOn) return
      clearInterval(this.#timer)
      onEnd()
    }, TICK_MS)
  }

  show(notice: Notice): void {
    notice.showCountdown(this.#reason, this.#until)
  }
}

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

  /** Says when a message can be sent, then clears the notice. */
  showCountdown(reason: string, until: number): void {
    const [before = '', after = ''] = TEXTS.messageKept.split('{when}')
    // Hidden from screen readers, which would read it every second.
    const clock = element('span', { 'aria-hidden': 'true' })
    const spoken = element('span', { class: 'hidden' }, uiText('inAMoment'))
    this.showRefusal(`${reason} ${before}`, clock, spoken, after)
    const tick = (): void => {
      const left = Math.ceil((until - Date.now()) / 1_000)
      if (left > 0) clock.textContent = uiText('inSeconds', { seconds: left })
      else this.clear()
    }
    this.#timer = setInterval(tick, TICK_MS)
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
