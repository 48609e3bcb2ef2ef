// Reads a line from a terminal without echo.

/** Key presses of a terminal in Node. */
export interface KeyInput extends AsyncIterable<Uint8Array | string> {
  setRawMode(isRaw: boolean): unknown
}

const ENTER = new Set(['\r', '\n'])
const BACKSPACE = new Set(['\b', '\u007f'])
const CTRL_C = '\u0003'
const CTRL_D = '\u0004'

/** Returns undefined after Ctrl-C or if the terminal closes. Calls `showPrompt` once echo is off. */
export async function readHiddenLine(keys: KeyInput, showPrompt: () => void): Promise<string | undefined> {
  const decoder = new TextDecoder()
  const typed: string[] = []
  keys.setRawMode(true)
  try {
    showPrompt()
    for await (const chunk of keys) {
      const text = typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
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
