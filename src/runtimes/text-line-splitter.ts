// Splits a stream of text into lines. A line over the limit is emitted in pieces, to bound memory.

/** Long enough for an answer of `ANSWER_MAX` characters in JSON, where each may take six. */
export const LINE_MAX = 8 * 1024 * 1024

/** `isPiece`: the text is a part of a line over the limit. */
export type OnLine = (line: string, isPiece: boolean) => void

export class TextLineSplitter {
  readonly #onLine: OnLine
  readonly #max: number
  /** The line so far, in pieces. Concatenating them per chunk would copy the whole line each time. */
  #pieces: string[] = []
  #length = 0
  /** Pieces of the current line were emitted. */
  #isLong = false

  constructor(onLine: OnLine, max = LINE_MAX) {
    this.#onLine = onLine
    this.#max = max
  }

  push(text: string): void {
    let from = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#keep(text.slice(from, end))
      this.#emit(this.#take(), true)
      from = end + 1
    }
    this.#keep(text.slice(from))
  }

  /** Emits a last line that has no newline. */
  end(): void {
    const rest = this.#take()
    if (rest !== '') this.#emit(rest, true)
  }

  /** Emits what is certainly over the limit. */
  #keep(piece: string): void {
    if (piece === '') return
    this.#pieces.push(piece)
    this.#length += piece.length
    if (this.#length <= this.#max) return
    const long = this.#take()
    let from = 0
    for (; long.length - from > this.#max; from += this.#max) {
      this.#isLong = true
      this.#emit(long.slice(from, from + this.#max), false)
    }
    this.#pieces.push(long.slice(from))
    this.#length = long.length - from
  }

  #take(): string {
    const whole = this.#pieces.join('')
    this.#pieces = []
    this.#length = 0
    return whole
  }

  #emit(line: string, isLast: boolean): void {
    const isPiece = this.#isLong
    if (isLast) this.#isLong = false
    this.#onLine(isLast && line.endsWith('\r') ? line.slice(0, -1) : line, isPiece)
  }
}
