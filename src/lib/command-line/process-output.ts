// stdout and stderr of the process as output streams.
import { errnoCode, refuseDisk } from '../files/atomic-file.ts'
import { Refusal } from '../refusal.ts'
import type { OutputStream } from './print.ts'

/** `program` prefixes the message on stderr when stdout cannot be written. */
export function processOutput(program: string): { readonly stdout: OutputStream; readonly stderr: OutputStream } {
  return {
    stdout: toOutputStream(process.stdout, 'stdout', program),
    stderr: toOutputStream(process.stderr, 'stderr', program),
  }
}

function toOutputStream(stream: NodeJS.WriteStream, name: string, program: string): OutputStream {
  stream.on('error', (error) => handleWriteError(error, name, program))
  return { write: (text) => void stream.write(text), isTerminal: stream.isTTY === true, width: stream.columns }
}

/** A closed pipe is fine; a full disk is an error. */
function handleWriteError(error: Error, name: string, program: string): void {
  if (errnoCode(error) === 'EPIPE') return
  process.exitCode = 1
  if (name === 'stdout') process.stderr.write(`${program}: ${describeWriteError(error)}\n`)
}

function describeWriteError(error: Error): string {
  try {
    return refuseDisk(error, 'write to', 'stdout')
  } catch (refusal) {
    return refusal instanceof Refusal ? refusal.message : error.message
  }
}

/** Exits with this code; at once if it is not 0, since after a failure nothing is worth waiting for. */
export function exitWith(code: number): void {
  // A failed write has already set its exit code.
  process.exitCode ||= code
  if (process.exitCode !== 0) process.exit()
}
