// The process's own streams, environment and signals as a command is given them.
import { createInterface } from 'node:readline'
import { isatty } from 'node:tty'
import { systemClock } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { environment } from '../lib/settings.ts'
import { endWith, processOuts } from '../lib/streams.ts'
import type { Io } from './command.ts'
import { hiddenLine } from './hidden-line.ts'
import { main } from './main.ts'

export async function runProcess(): Promise<void> {
  // At once where it failed: after a failure of the disk, a store that is still open must not be closed.
  endWith(await main(process.argv.slice(2), processIo()))
}

function processIo(): Io {
  return {
    ...processOuts('svc'),
    // Asked for late: touching it would keep the process waiting for a terminal.
    get stdin() {
      return process.stdin
    },
    ask: isatty(0) ? ask : undefined,
    environment: environment(),
    clock: systemClock,
    stopped: () =>
      new Promise((resolve) => {
        // Once: who asks a second time does not want to wait for an orderly end.
        for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
      }),
  }
}

async function ask(question: string, { isShown = false }: { isShown?: boolean } = {}): Promise<string> {
  const line = await (isShown ? shownLine(question) : unseenLine(question))
  return line ?? refuse('invalid', 'stopped: nothing was changed')
}

async function unseenLine(question: string): Promise<string | undefined> {
  const line = await hiddenLine(process.stdin, () => void process.stderr.write(`${question}: `))
  process.stderr.write('\n')
  return line
}

/** Nothing, where Ctrl-C or Ctrl-D was pressed. */
function shownLine(question: string): Promise<string | undefined> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  return new Promise((resolve) => {
    lines.once('close', () => resolve(undefined))
    lines.question(`${question} `, (line) => {
      resolve(line)
      lines.close()
    })
  })
}
