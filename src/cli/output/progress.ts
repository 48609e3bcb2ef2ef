// Progress line of a long command, on terminals only.
import type { OutputStream } from '../../lib/command-line/print.ts'

const INTERVAL_MS = 200
const CLEAR_LINE = '\r\u001b[K'

interface Progress {
  show(text: string): void
  end(): void
}

export function openProgress(out: OutputStream): Progress {
  let shownMs = Number.NEGATIVE_INFINITY
  return {
    show: (text) => {
      if (!out.isTerminal || performance.now() - shownMs < INTERVAL_MS) return
      shownMs = performance.now()
      out.write(`${CLEAR_LINE}${text}`)
    },
    end: () => {
      if (shownMs > 0) out.write(CLEAR_LINE)
    },
  }
}

export function formatMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}
