// The process's own streams, environment and signals as a command is given them.
import { isatty } from 'node:tty'
import { diskCode, refuseDisk } from '../lib/atomic-file.ts'
import { systemClock } from '../lib/clock.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { environment } from '../lib/settings.ts'
import type { Io } from './command.ts'
import { hiddenLine } from './hidden-line.ts'
import { main } from './main.ts'
import type { Out } from './print.ts'

export async function runProcess(): Promise<void> {
  const code = await main(process.argv.slice(2), processIo())
  // A write that failed has said so already.
  process.exitCode ||= code
  // At once: after a failure of the disk, a store that is still open must not be closed.
  if (process.exitCode !== 0) process.exit()
}

function processIo(): Io {
  return {
    stdout: outOf(process.stdout, 'stdout'),
    stderr: outOf(process.stderr, 'stderr'),
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

async function ask(question: string): Promise<string> {
  const line = await hiddenLine(process.stdin, () => void process.stderr.write(`${question}: `))
  process.stderr.write('\n')
  return line ?? refuse('invalid', 'stopped: nothing was changed')
}

function outOf(stream: NodeJS.WriteStream, name: string): Out {
  stream.on('error', (error) => failed(error, name))
  return { write: (text) => void stream.write(text), isTerminal: stream.isTTY === true, width: stream.columns }
}

/** A reader who has seen enough is fine; a disk that is full is not. */
function failed(error: Error, name: string): void {
  if (diskCode(error) === 'EPIPE') return
  process.exitCode = 1
  if (name === 'stdout') process.stderr.write(`svc: ${sentenceOf(error)}\n`)
}

function sentenceOf(error: Error): string {
  try {
    return refuseDisk(error, 'write to', 'stdout')
  } catch (refusal) {
    return refusal instanceof Refusal ? refusal.message : error.message
  }
}
