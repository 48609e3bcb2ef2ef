// Questions on a terminal. What is typed ahead of a question is kept for it: only lines that are asked for are taken.
import { type KeyInput, readHiddenLine } from './hidden-line.ts'

/** A terminal's input, as Node gives it. */
export interface TerminalInput {
  iterator(options: { readonly destroyOnReturn: boolean }): AsyncIterator<Uint8Array | string>
  setRawMode(isRaw: boolean): unknown
  ref?(): unknown
  unref?(): unknown
}

const CTRL_D = '\u0004'

export class Terminal {
  readonly #input: () => TerminalInput
  readonly #write: (text: string) => void
  readonly #decoder = new TextDecoder()
  #chunks: AsyncIterator<Uint8Array | string> | undefined
  #typed: string[] = []

  /** `input` is asked for late: touching it would keep the process waiting for a terminal. */
  constructor(input: () => TerminalInput, write: (text: string) => void) {
    this.#input = input
    this.#write = write
  }

  /** A line that shows while it is typed; nothing where the terminal went away. */
  async promptLine(question: string): Promise<string | undefined> {
    return this.#reading(async () => {
      this.#write(`${question}: `)
      let line = ''
      for await (const key of this.#keys()) {
        if (key === '\n' || key === '\r') return line
        if (key === CTRL_D) break
        line += key
      }
      return undefined
    })
  }

  /** One that does not. */
  async promptHidden(question: string): Promise<string | undefined> {
    return this.#reading(async () => {
      const line = await readHiddenLine(this.#keys(), () => this.#write(`${question}: `))
      this.#write('\n')
      return line
    })
  }

  async #reading<T>(work: () => Promise<T>): Promise<T> {
    const input = this.#input()
    input.ref?.()
    try {
      return await work()
    } finally {
      // Only while it is asked something does a terminal keep the process running.
      input.unref?.()
    }
  }

  #keys(): KeyInput {
    return {
      setRawMode: (isRaw) => this.#input().setRawMode(isRaw),
      [Symbol.asyncIterator]: () => this.#characters(),
    }
  }

  async *#characters(): AsyncGenerator<string> {
    for (;;) {
      const key = this.#typed.shift()
      if (key !== undefined) yield key
      else if (!(await this.#more())) return
    }
  }

  async #more(): Promise<boolean> {
    this.#chunks ??= this.#input().iterator({ destroyOnReturn: false })
    const { done, value } = await this.#chunks.next()
    if (done) return false
    this.#typed.push(...(typeof value === 'string' ? value : this.#decoder.decode(value, { stream: true })))
    return true
  }
}
