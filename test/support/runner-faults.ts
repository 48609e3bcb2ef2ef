// Loaded into a served instance with `--import`: when its runner gets SIGUSR2, it has the fault that the file RUNNER_FAULT names.
import { readFileSync } from 'node:fs'
import { StatementSync } from 'node:sqlite'
import type { FaultHandler, FaultPlace } from '../../src/lib/fault-boundary.ts'

/** More than a runner has at a time. */
const HANDLERS_MAX = 500

const handlers: { readonly place: FaultPlace; readonly handle: FaultHandler }[] = []

const ACTIONS: Readonly<Record<string, () => unknown>> = {
  // A transaction takes no turn of the event loop, so this is never in one.
  stop: () => process.kill(process.pid, 'SIGSTOP'),
  'stop in a transaction': stopInTransaction,
  'endless loop': () => {
    for (;;);
  },
  'memory limit': () => {
    const kept: unknown[] = []
    for (;;) kept.push(new Array(1_000_000).fill(kept.length))
  },
  exception: () => {
    throw new TypeError('odd event')
  },
  'exceptions in boundaries': throwInBoundaries,
}

function stopInTransaction(): void {
  const { run } = StatementSync.prototype
  const runAndStop = function (this: StatementSync, ...args: unknown[]): unknown {
    const result: unknown = Reflect.apply(run, this, args)
    if (this.sourceSQL === 'begin immediate') {
      // The parent waits longest after a sign of life.
      process.send?.({ kind: 'alive' })
      process.kill(process.pid, 'SIGSTOP')
    }
    return result
  }
  Reflect.set(StatementSync.prototype, 'run', runAndStop)
}

/** Exceptions in code of a turn, a tool call, a subscriber and a worker; and one for each handler that the runner has made. */
async function throwInBoundaries(): Promise<void> {
  const { RunSockets } = await import('../../src/agent-socket/run-socket.ts')
  const { LocalWorkspaces } = await import('../../src/daemons/runed/local-workspaces.ts')
  const { CommitSignals } = await import('../../src/lib/commit-signals.ts')
  const { TurnLog } = await import('../../src/runtimes/turn-log.ts')
  throwOnce(RunSockets.prototype, 'open', 'turn')
  throwOnce(TurnLog.prototype, 'write', 'tool')
  throwOnce(CommitSignals.prototype, 'emit', 'signal')
  throwOnce(LocalWorkspaces.prototype, 'missing', 'job')
  for (const { place, handle } of handlers.splice(0)) handle(new TypeError(`odd event in ${place}`))
}

function throwOnce(prototype: object, method: string, place: FaultPlace): void {
  const original: unknown = Reflect.get(prototype, method)
  Reflect.set(prototype, method, () => {
    Reflect.set(prototype, method, original)
    throw new TypeError(`odd code in ${place}`)
  })
}

if (process.env.SVC_PROCESS === 'runner') {
  const { FaultBoundary } = await import('../../src/lib/fault-boundary.ts')
  const { handler } = FaultBoundary.prototype
  FaultBoundary.prototype.handler = function (place, end) {
    const handle = handler.call(this, place, end)
    handlers.push({ place, handle })
    if (handlers.length > HANDLERS_MAX) handlers.shift()
    return handle
  }
  process.on('SIGUSR2', () => void ACTIONS[readFileSync(process.env.RUNNER_FAULT ?? '', 'utf8')]?.())
}
