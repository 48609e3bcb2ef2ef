// A separate process that removes what a run has created if the run's process dies, for example by SIGKILL. The run and every
// engine call in progress hold the other end of its stdin.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { ContainerEngine } from '../container/engine.ts'
import { removeRunResources } from './run-resources.ts'

export interface CleanupWatcher {
  /** Keeps the watcher waiting while it is open. */
  readonly hold: Writable
  /** Nothing is left: the watcher exits. */
  release(): void
  /** Something is left: the watcher takes over now. */
  handOver(): void
}

const SELF = fileURLToPath(import.meta.url)
const RELEASED = 'released'
/** A busy engine takes a while to release a network. */
const TRIES = 30
const BETWEEN_MS = 1000

export function startCleanupWatcher({ command, kind }: ContainerEngine, tag: string): CleanupWatcher {
  // In its own session, out of reach of Ctrl-C and of a closed terminal.
  const child: ChildProcess = spawn(process.execPath, [SELF, command, kind, tag], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.on('error', () => undefined).unref()
  const { stdin } = child
  if (!stdin || child.pid === undefined)
    return refuse('unavailable', 'cannot start the process that cleans up after the run')
  stdin.on('error', () => undefined)
  return { hold: stdin, release: () => void stdin.end(RELEASED), handOver: () => void stdin.destroy() }
}

async function watch([command = '', kind, tag = '']: readonly string[]): Promise<void> {
  if ((await text(process.stdin)) === RELEASED) return
  const engine: ContainerEngine = { command, kind: kind === 'podman' ? 'podman' : 'docker' }
  for (let tries = 0; tries < TRIES; tries++) {
    if (await isOver(engine, tag)) return
    await pause(BETWEEN_MS)
  }
}

/** No one reads errors here; the next run removes the rest. */
async function isOver(engine: ContainerEngine, tag: string): Promise<boolean> {
  try {
    return (await removeRunResources(engine, tag)).length === 0
  } catch (error) {
    return error instanceof Refusal && error.code === 'not_found'
  }
}

if (import.meta.main) {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  await watch(process.argv.slice(2))
}
