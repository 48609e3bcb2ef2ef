// Splits a stream of text into lines. A line over the limit is emitted in pieces, to bound memory.
const LINE_MAX = 8 * 1024 * 1024

export class TextLineSplitter {
  readonly #onLine: (line: string) => void
  readonly #max: number
  /** The line so far, in pieces. Concatenating them per chunk would copy the whole line each time. */
  #pieces: string[] = []
  #length = 0

  constructor(onLine: (line: string) => void, max = LINE_MAX) {
    this.#onLine = onLine
    this.#max = max
  }

  push(text: string): void {
    let from = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#emit(this.#take() + text.slice(from, end))
      from = end + 1
    }
    this.#keep(text.slice(from))
    if (this.#length <= this.#max) return
    let rest = this.#take()
    for (; rest.length > this.#max; rest = rest.slice(this.#max)) this.#emit(rest.slice(0, this.#max))
    this.#keep(rest)
  }

  /** Emits a last line that has no newline. */
  end(): void {
    const rest = this.#take()
    if (rest !== '') this.#emit(rest)
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

  #emit(line: string): void {
    this.#onLine(line.endsWith('\r') ? line.slice(0, -1) : line)
  }
}
