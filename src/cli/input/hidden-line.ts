// One line from a terminal that is not shown while it is typed.

/** A terminal's keys, as Node gives them. */
export interface KeyInput extends AsyncIterable<Uint8Array | string> {
  setRawMode(isRaw: boolean): unknown
}

const ENTER = new Set(['\r', '\n'])
const BACKSPACE = new Set(['\b', '\u007f'])
const CTRL_C = '\u0003'
const CTRL_D = '\u0004'

/** Nothing, where Ctrl-C was pressed or the terminal went away. Only when nothing shows any more, `ask` asks. */
export async function readHiddenLine(keys: KeyInput, ask: () => void): Promise<string | undefined> {
  const decoder = new TextDecoder()
  const typed: string[] = []
  keys.setRawMode(true)
  try {
    ask()
    for await (const piece of keys) {
      const text = typeof piece === 'string' ? piece : decoder.decode(piece, { stream: true })
      for (const key of text) {
        if (key === CTRL_C) return undefined
        if (ENTER.has(key) || key === CTRL_D) return typed.join('')
        if (BACKSPACE.has(key)) typed.pop()
        else typed.push(key)
      }
    }
    return undefined
  } finally {
    keys.setRawMode(false)
  }
}
