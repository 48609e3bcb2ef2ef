// The process's own streams, environment and signals as a command is given them.
import { isatty } from 'node:tty'
import { systemClock } from '../lib/clock.ts'
import { exitWith, processOutput } from '../lib/command-line/process-output.ts'
import { refuse } from '../lib/refusal.ts'
import { environment } from '../lib/settings.ts'
import type { SvcIo } from './command.ts'
import { Terminal } from './input/terminal.ts'
import { runSvc } from './main.ts'

export async function runProcess(): Promise<void> {
  // At once where it failed: after a failure of the disk, a store that is still open must not be closed.
  exitWith(await runSvc(process.argv.slice(2), processIo()))
}

function processIo(): SvcIo {
  return {
    ...processOutput('svc'),
    // Asked for late: touching it would keep the process waiting for a terminal.
    get stdin() {
      return process.stdin
    },
    output: (bytes) =>
      new Promise((resolve, reject) => {
        process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()))
      }),
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

function questions(): Pick<SvcIo, 'ask' | 'prompt'> {
  const terminal = new Terminal(
    () => process.stdin,
    (text) => void process.stderr.write(text),
  )
  const answered = (line: string | undefined): string => line ?? refuse('invalid', 'stopped: nothing was changed')
  return {
    ask: async (question) => answered(await terminal.promptHidden(question)),
    prompt: async (question) => answered(await terminal.promptLine(question)),
  }
}
