// Runs the command of this process in supervised children, with the same arguments. The launcher calls it before it loads
// anything else, so that the parent stays small.
import { type ChildProcess, spawn } from 'node:child_process'
import { childEnvironment, readEnvironment } from '../lib/environment.ts'
import { notifySystemd, watchdogMs } from '../lib/systemd-notify.ts'
import { ROLE_VARIABLE, TURN_VARIABLE } from './messages.ts'
import { Supervisor } from './supervisor.ts'

/** `serve` without names of daemons, and `start`; wrong arguments are left to the children. */
export function isSupervised([command, ...args]: readonly string[]): boolean {
  if (readEnvironment(ROLE_VARIABLE) !== undefined) return false
  const isValue = (at: number): boolean => ['--port', '-p'].includes(args[at - 1] ?? '')
  const words = args.filter((arg, at) => !arg.startsWith('-') && !isValue(at))
  return command === 'start' || (command === 'serve' && words.length === 1)
}

/** Resolves to the exit code. */
export async function superviseProgram(): Promise<number> {
  const watchdog = watchdogMs()
  let notifiedAt = performance.now()
  const supervisor = new Supervisor({
    spawn: spawnSelf,
    onReady: () => notifySystemd('READY=1'),
    onAlive: () => {
      if (watchdog === undefined || performance.now() - notifiedAt < watchdog / 2) return
      notifiedAt = performance.now()
      notifySystemd('WATCHDOG=1')
    },
    // A line that cannot be written must not end the parent.
    onRestart: (role, reason, pauseMs) => void logRestart(role, reason, pauseMs).catch(() => undefined),
  })
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => supervisor.stop())
  return supervisor.run()
}

/** Starts a runner of one turn. */
export function spawnRunner(turnId: string): ChildProcess {
  return spawnSelf({ [ROLE_VARIABLE]: 'runner', [TURN_VARIABLE]: turnId })
}

/** Starts this program with the same arguments, these variables, an IPC channel and, unless it runs one turn, a pipe. */
function spawnSelf(variables: Readonly<Record<string, string>>): ChildProcess {
  const { execPath, execArgv, argv } = process
  return spawn(execPath, [...execArgv, ...argv.slice(1)], {
    // The parent alone talks to systemd.
    env: childEnvironment({ NOTIFY_SOCKET: undefined, WATCHDOG_USEC: undefined, ...variables }),
    stdio: ['ignore', 'inherit', 'inherit', 'ipc', variables[TURN_VARIABLE] === undefined ? 'pipe' : 'ignore'],
  })
}

/** The log is loaded with its first line. */
async function logRestart(role: string, reason: string, pauseMs: number): Promise<void> {
  const { openLog } = await import('../lib/log/log.ts')
  const log = await openLog({})
  log.error({ process: role, reason, pauseMs }, 'a process of svc has ended and is started again')
}
