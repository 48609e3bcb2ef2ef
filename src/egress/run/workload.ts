// The workload of a run: checks where its container stands, runs it to its end on this process's streams, and passes
// signals on to it.
import { setTimeout as pause } from 'node:timers/promises'
import type { Out } from '../../lib/print.ts'
import { refuse } from '../../lib/refusal.ts'
import { attach, call } from './engine.ts'
import type { Interrupts, Signal } from './interrupts.ts'
import { nameOf, type Run } from './parts.ts'
import type { RunningProxy } from './proxy.ts'

export interface Stage {
  readonly proxy: RunningProxy
  readonly isTerminal: boolean
  readonly interrupts: Interrupts
  readonly stderr: Out
}

/** Between asking and killing, as the engines have it. */
const GRACE_MS = 10_000
const AGAIN_MS = 200
const START_FAILED = 125

/** On our network and on no other; an engine may add one by its own configuration. */
export async function mustStandAlone(run: Run): Promise<void> {
  const format = ['--format', '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}']
  const said = await call(run.engine, ['container', 'inspect', ...format, nameOf(run, 'workload')])
  if (said === nameOf(run, 'net')) return
  refuse('unavailable', `${run.engine.command} has put the workload on other networks too: ${said || 'none'}`)
}

/** The workload's exit code. */
export async function runToEnd(run: Run, { proxy, isTerminal, interrupts, stderr }: Stage): Promise<number> {
  const name = nameOf(run, 'workload')
  const over = new AbortController()
  void proxy.ended.then((last) => {
    if (!over.signal.aborted) stderr.write(`egress-proxy: the proxy has ended, so nothing can be reached: ${last}\n`)
  })
  interrupts.onFirst((signal) => void passOn(run, signal, over.signal))
  await attach(run.engine, ['start', '--attach', '--interactive', name], isTerminal)
  over.abort()
  const said = await call(run.engine, [
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
  const [status, digits] = said.split(' ')
  if (status === 'exited') return Number(digits)
  // The engine could not start the init process, and has said why.
  return START_FAILED
}

/** Once, as soon as it can be: a workload that is just starting cannot be signalled yet. After a while it is killed. */
async function passOn(run: Run, first: Signal, over: AbortSignal): Promise<void> {
  for (const signal of [first, 'SIGKILL']) {
    while (!over.aborted && !(await isPassed(run, signal))) await rest(AGAIN_MS, over)
    await rest(GRACE_MS, over)
  }
}

async function isPassed(run: Run, signal: string): Promise<boolean> {
  try {
    await call(run.engine, ['kill', '--signal', signal, nameOf(run, 'workload')])
    return true
  } catch {
    return false
  }
}

async function rest(waitMs: number, signal: AbortSignal): Promise<void> {
  await pause(waitMs, undefined, { signal }).catch(() => undefined)
}
