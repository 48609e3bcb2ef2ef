// Streams, environment and signals of the process as passed to commands.
import { isatty } from 'node:tty'
import { systemClock } from '../lib/clock.ts'
import { exitWith, processOutput } from '../lib/command-line/process-output.ts'
import { environment } from '../lib/environment.ts'
import { FAULT_EXIT_CODE } from '../lib/fault-boundary.ts'
import { lazy } from '../lib/lazy.ts'
import { refuse } from '../lib/refusal.ts'
import type { SvcIo } from './command.ts'
import { runSvc } from './main.ts'
import { programHere } from './output/shown-commands.ts'

export async function runProcess(): Promise<void> {
  // Exits at once after an error: after a disk failure, an open store must not be closed.
  exitWith(await runSvc(process.argv.slice(2), await processIo()))
}

async function processIo(): Promise<SvcIo> {
  // Only a supervised process has a channel, and only it loads this.
  const line = process.channel && (await import('../supervisor/process-line.ts')).openProcessLine()
  return {
    ...processOutput('svc'),
    // Lazy, because accessing process.stdin on a terminal keeps the process running.
    get stdin() {
      return process.stdin
    },
    writeBytes: (bytes) =>
      new Promise((resolve, reject) => {
        process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()))
      }),
    ...(isatty(0) ? terminalPrompts() : {}),
    environment: environment(),
    typed: () => programHere(environment()),
    clock: systemClock,
    stopped: () =>
      new Promise((resolve) => {
        // Once, so that a second signal ends the process at once.
        for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
        void line?.parentEnded.then(resolve)
      }),
    ...(line ? { line } : {}),
    // Also called for a promise that was rejected without a handler.
    onUncaught: (log) => {
      process.once('uncaughtException', (error) => {
        try {
          log(error)
        } finally {
          process.exit(FAULT_EXIT_CODE)
        }
      })
    },
  }
}

function terminalPrompts(): Pick<SvcIo, 'promptHidden' | 'prompt'> {
  // One for all questions, because it keeps lines that were typed ahead; loaded with the first.
  const terminal = lazy(async () => {
    const { Terminal } = await import('./input/terminal.ts')
    return new Terminal(
      () => process.stdin,
      (text) => void process.stderr.write(text),
    )
  })
  const requireLine = (line: string | undefined): string => line ?? refuse('invalid', 'stopped: nothing was changed')
  return {
    promptHidden: async (question) => requireLine(await (await terminal()).promptHidden(question)),
    prompt: async (question) => requireLine(await (await terminal()).promptLine(question)),
  }
}
