// Prompts on a terminal. Lines typed ahead of a prompt are buffered for it.
import { type KeyInput, readHiddenLine } from './hidden-line.ts'

/** The input stream of a terminal in Node. */
interface TerminalInput {
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
  #buffered: string[] = []

  /** `input` is a function because accessing process.stdin keeps the process running. */
  constructor(input: () => TerminalInput, write: (text: string) => void) {
    this.#input = input
    this.#write = write
  }

  /** Returns undefined if the terminal closes. */
  async promptLine(question: string): Promise<string | undefined> {
    return this.#withInput(async () => {
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

  /** Like `promptLine`, without echo. */
  async promptHidden(question: string): Promise<string | undefined> {
    return this.#withInput(async () => {
      const line = await readHiddenLine(this.#keys(), () => this.#write(`${question}: `))
      this.#write('\n')
      return line
    })
  }

  async #withInput<T>(work: () => Promise<T>): Promise<T> {
    const input = this.#input()
    input.ref?.()
    try {
      return await work()
    } finally {
      // The terminal keeps the process running only during a prompt.
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
      const key = this.#buffered.shift()
      if (key !== undefined) yield key
      else if (!(await this.#readChunk())) return
    }
  }

  async #readChunk(): Promise<boolean> {
    this.#chunks ??= this.#input().iterator({ destroyOnReturn: false })
    const { done, value } = await this.#chunks.next()
    if (done) return false
    this.#buffered.push(...(typeof value === 'string' ? value : this.#decoder.decode(value, { stream: true })))
    return true
  }
}
