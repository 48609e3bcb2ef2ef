// The process's own streams, environment and signals as a command is given them.
import { isatty } from 'node:tty'
import { systemClock } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { environment } from '../lib/settings.ts'
import { endWith, processOuts } from '../lib/streams.ts'
import type { Io } from './command.ts'
import { main } from './main.ts'
import { Terminal } from './terminal.ts'

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
    ...(isatty(0) ? questions() : {}),
    environment: environment(),
    clock: systemClock,
    stopped: () =>
      new Promise((resolve) => {
        // Once: who asks a second time does not want to wait for an orderly end.
        for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
      }),
  }
}

function questions(): Pick<Io, 'ask' | 'prompt'> {
  const terminal = new Terminal(
    () => process.stdin,
    (text) => void process.stderr.write(text),
  )
  const answered = (line: string | undefined): string => line ?? refuse('invalid', 'stopped: nothing was changed')
  return {
    ask: async (question) => answered(await terminal.hidden(question)),
    prompt: async (question) => answered(await terminal.line(question)),
  }
}
