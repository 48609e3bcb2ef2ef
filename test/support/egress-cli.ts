// Runs the command line of egress-proxy in the process of the test.
import { egressMain } from '../../src/egress/main.ts'
import { sourceOf } from '../../src/lib/settings.ts'

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly terminal?: boolean
  /** Width of the terminal. */
  readonly width?: number
}

export async function egressProxy(
  words: readonly string[],
  { env = {}, terminal = false, width }: RunOptions = {},
): Promise<Ran> {
  const said = { stdout: '', stderr: '' }
  const out = (name: 'stdout' | 'stderr') => ({
    isTerminal: terminal,
    width,
    write: (text: string) => {
      said[name] += text
    },
  })
  const code = await egressMain(words, {
    stdout: out('stdout'),
    stderr: out('stderr'),
    environment: sourceOf('the environment', new Map(Object.entries(env))),
    stopped: () => Promise.resolve('SIGTERM'),
    onHangup: () => {},
  })
  return { code, ...said }
}
