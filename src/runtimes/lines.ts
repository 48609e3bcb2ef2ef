// Cuts a stream of text into lines. A line that is too long is handed on in pieces, so that memory stays bounded.
const LINE_MAX = 8 * 1024 * 1024

export class Lines {
  readonly #onLine: (line: string) => void
  readonly #max: number
  #rest = ''

  constructor(onLine: (line: string) => void, max = LINE_MAX) {
    this.#onLine = onLine
    this.#max = max
  }

  push(text: string): void {
    // What was looked through before holds no end of a line.
    let from = 0
    let rest = this.#rest + text
    let end = rest.indexOf('\n', this.#rest.length)
    for (; end >= 0; end = rest.indexOf('\n', from)) {
      this.#give(rest.slice(from, end))
      from = end + 1
    }
    rest = rest.slice(from)
    for (; rest.length > this.#max; rest = rest.slice(this.#max)) this.#give(rest.slice(0, this.#max))
    this.#rest = rest
  }

  /** What came last had no end. */
  end(): void {
    const rest = this.#rest
    this.#rest = ''
    if (rest !== '') this.#give(rest)
  }

  #give(line: string): void {
    this.#onLine(line.endsWith('\r') ? line.slice(0, -1) : line)
  }
}
