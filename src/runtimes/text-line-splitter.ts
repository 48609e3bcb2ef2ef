// Cuts a stream of text into lines. A line that is too long is handed on in pieces, so that memory stays bounded.
const LINE_MAX = 8 * 1024 * 1024

export class TextLineSplitter {
  readonly #onLine: (line: string) => void
  readonly #max: number
  /** The start of a line whose end has not come. Joined only then: one text that grows would be copied with every chunk. */
  #pieces: string[] = []
  #length = 0

  constructor(onLine: (line: string) => void, max = LINE_MAX) {
    this.#onLine = onLine
    this.#max = max
  }

  push(text: string): void {
    let from = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#give(this.#take() + text.slice(from, end))
      from = end + 1
    }
    this.#keep(text.slice(from))
    if (this.#length <= this.#max) return
    let rest = this.#take()
    for (; rest.length > this.#max; rest = rest.slice(this.#max)) this.#give(rest.slice(0, this.#max))
    this.#keep(rest)
  }

  /** What came last had no end. */
  end(): void {
    const rest = this.#take()
    if (rest !== '') this.#give(rest)
  }

  #keep(piece: string): void {
    if (piece === '') return
    this.#pieces.push(piece)
    this.#length += piece.length
  }

  #take(): string {
    const whole = this.#pieces.join('')
    this.#pieces = []
    this.#length = 0
    return whole
  }

  #give(line: string): void {
    this.#onLine(line.endsWith('\r') ? line.slice(0, -1) : line)
  }
}
