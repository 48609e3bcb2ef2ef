// `svc` on a pseudo-terminal.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

export interface TerminalCommand {
  /** What it has printed so far, to stdout and stderr. */
  screen(): string
  type(line: string): void
  readonly code: Promise<number | null>
}

/** Runs `svc` for the instance in the directory `root`. */
export function svcOnTerminal(t: TestContext, root: string, args: string): TerminalCommand {
  const child = spawn('script', ['-qfec', `'${process.execPath}' '${BIN}' ${args}`, '/dev/null'], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'dumb', SVC_DATA_DIR: dirname(root) },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.after(() => void child.kill('SIGKILL'))
  let screen = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    screen += chunk
  })
  return {
    screen: () => screen,
    type: (line) => void child.stdin.write(`${line}\n`),
    code: once(child, 'close').then(([code]) => (typeof code === 'number' ? code : null)),
  }
}
