// Stands by a run in a process of its own: when the run's process is gone without having cleaned up, killed for example,
// it removes what was made. The run holds the other end of its input, and so does every call that is still making something.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Engine } from './engine.ts'
import { removeRemains } from './remains.ts'

export interface Watch {
  /** What keeps the watch waiting while it is open. */
  readonly hold: Writable
  /** Nothing is left: the watch ends without having done anything. */
  release(): void
  /** Something is left: the watch takes over now. */
  handOver(): void
}

const SELF = fileURLToPath(import.meta.url)
const RELEASED = 'released'
/** An engine that is busy takes a while to let go of a network. */
const TRIES = 30
const BETWEEN_MS = 1000

export function startWatch({ command, kind }: Engine, tag: string): Watch {
  // A session of its own, which no Ctrl-C and no closed terminal reaches.
  const child: ChildProcess = spawn(process.execPath, [SELF, command, kind, tag], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.on('error', () => undefined).unref()
  const { stdin } = child
  if (!stdin || child.pid === undefined) return refuse('unavailable', 'the watch of the run could not be started')
  stdin.on('error', () => undefined)
  return { hold: stdin, release: () => void stdin.end(RELEASED), handOver: () => void stdin.destroy() }
}

async function watch([command = '', kind, tag = '']: readonly string[]): Promise<void> {
  if ((await text(process.stdin)) === RELEASED) return
  const engine: Engine = { command, kind: kind === 'podman' ? 'podman' : 'docker' }
  for (let tries = 0; tries < TRIES; tries++) {
    if (await isOver(engine, tag)) return
    await pause(BETWEEN_MS)
  }
}

/** Nobody reads what could be said here; the next run finds what is left. */
async function isOver(engine: Engine, tag: string): Promise<boolean> {
  try {
    return (await removeRemains(engine, tag)).length === 0
  } catch (error) {
    return error instanceof Refusal && error.code === 'not_found'
  }
}

if (import.meta.main) {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  await watch(process.argv.slice(2))
}
