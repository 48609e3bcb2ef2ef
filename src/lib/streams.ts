// The process's stdout and stderr as a program writes to them.
import { diskCode, refuseDisk } from './atomic-file.ts'
import type { Out } from './print.ts'
import { Refusal } from './refusal.ts'

/** `program` is who says on stderr that stdout could not be written. */
export function processOuts(program: string): { readonly stdout: Out; readonly stderr: Out } {
  return { stdout: outOf(process.stdout, 'stdout', program), stderr: outOf(process.stderr, 'stderr', program) }
}

function outOf(stream: NodeJS.WriteStream, name: string, program: string): Out {
  stream.on('error', (error) => failed(error, name, program))
  return { write: (text) => void stream.write(text), isTerminal: stream.isTTY === true, width: stream.columns }
}

/** A reader who has seen enough is fine; a disk that is full is not. */
function failed(error: Error, name: string, program: string): void {
  if (diskCode(error) === 'EPIPE') return
  process.exitCode = 1
  if (name === 'stdout') process.stderr.write(`${program}: ${sentenceOf(error)}\n`)
}

function sentenceOf(error: Error): string {
  try {
    return refuseDisk(error, 'write to', 'stdout')
  } catch (refusal) {
    return refusal instanceof Refusal ? refusal.message : error.message
  }
}

/** Ends with this exit code, at once where it is not 0: after a failure nothing is worth waiting for. */
export function endWith(code: number): void {
  // A write that failed has said so already.
  process.exitCode ||= code
  if (process.exitCode !== 0) process.exit()
}
