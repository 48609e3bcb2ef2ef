// Runs the workload: checks its networks, runs it on this process's streams until it exits, and forwards signals.
import { setTimeout as sleep } from 'node:timers/promises'
import type { OutputStream } from '../../lib/command-line/print.ts'
import { refuse } from '../../lib/refusal.ts'
import { runEngine, runEngineAttached } from '../container/engine.ts'
import { componentName, type Run } from '../container/engine-args.ts'
import type { Interrupts, Signal } from './interrupts.ts'
import type { ProxyContainer } from './proxy-container.ts'

export interface WorkloadContext {
  readonly proxy: ProxyContainer
  readonly isTerminal: boolean
  readonly interrupts: Interrupts
  readonly stderr: OutputStream
}

/** Between SIGTERM and SIGKILL, as in the engines. */
const GRACE_MS = 10_000
const AGAIN_MS = 200
const START_FAILED = 125

/** Only on our network: the engine's configuration may add others. */
export async function checkSingleNetwork(run: Run): Promise<void> {
  const part = run.hasHolder ? 'holder' : 'workload'
  const format = ['--format', '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}']
  const output = await runEngine(run.engine, ['container', 'inspect', ...format, componentName(run, part)])
  if (output === componentName(run, 'net')) return
  refuse('unavailable', `${run.engine.command} attached the workload to other networks too: ${output || 'none'}`)
}

/** Returns the workload's exit code. */
export async function runWorkloadToExit(
  run: Run,
  { proxy, isTerminal, interrupts, stderr }: WorkloadContext,
): Promise<number> {
  const name = componentName(run, 'workload')
  const over = new AbortController()
  void proxy.ended.then((last) => {
    if (!over.signal.aborted) stderr.write(`egress-proxy: the proxy has ended, so no host can be reached: ${last}\n`)
  })
  interrupts.onFirst((signal) => void forwardSignal(run, signal, over.signal))
  await runEngineAttached(run.engine, ['start', '--attach', '--interactive', name], isTerminal)
  over.abort()
  const output = await runEngine(run.engine, [
    'container',
    'inspect',
    '--format',
    '{{.State.Status}} {{.State.ExitCode}}',
    name,
  ])
  if (stderr.isTerminal) {
    const denied = (await proxy.finish()).sentence()
    if (denied) stderr.write(`egress-proxy: ${denied}\n`)
  }
  const [status, digits] = output.split(' ')
  if (status === 'exited') return Number(digits)
  // The engine could not start the init process and has printed why.
  return START_FAILED
}

/** Once, as soon as possible: a starting workload cannot be signalled yet. Kills it after a grace period. */
async function forwardSignal(run: Run, first: Signal, over: AbortSignal): Promise<void> {
  for (const signal of [first, 'SIGKILL']) {
    while (!over.aborted && !(await isForwarded(run, signal))) await pause(AGAIN_MS, over)
    await pause(GRACE_MS, over)
  }
}

async function isForwarded(run: Run, signal: string): Promise<boolean> {
  try {
    await runEngine(run.engine, ['kill', '--signal', signal, componentName(run, 'workload')])
    return true
  } catch {
    return false
  }
}

async function pause(waitMs: number, signal: AbortSignal): Promise<void> {
  await sleep(waitMs, undefined, { signal }).catch(() => undefined)
}
