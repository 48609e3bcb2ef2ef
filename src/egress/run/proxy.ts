// The proxy of a run: starts its container, waits until it is ready, and listens to what it says.
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { refuse } from '../../lib/refusal.ts'
import { Denials } from './denials.ts'
import { ask, follow, lastLine } from './engine.ts'
import { nameOf, type Run } from './parts.ts'

export interface RunningProxy {
  /** Resolves when it has ended by itself, with the last thing it said. */
  readonly ended: Promise<string>
  /** Ends it, and answers with all that it has denied: its last lines come after the workload's end. */
  finish(): Promise<Denials>
}

const READY_MS = 30_000
/** Nobody uses it any more; a tunnel that lingers at its far end is not waited for. */
const FINISH_MS = 5000

/** Refused, with the last thing that it said, where it does not come up. */
export async function startProxy(run: Run): Promise<RunningProxy> {
  const child = follow(run.engine, ['start', '--attach', nameOf(run, 'proxy')])
  const { promise: isReady, resolve } = Promise.withResolvers<boolean>()
  const denials = new Denials()
  let last = 'it gave no reason'
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue
    createInterface({ input: stream }).on('line', (line) => {
      if (stream === child.stdout && line === 'ready') resolve(true)
      last = lastLine(line) ?? last
      denials.read(line)
    })
  }
  const ended = new Promise<string>((done) =>
    child.on('error', ({ message }) => done(message)).on('close', () => done(last)),
  )
  const timer = setTimeout(resolve, READY_MS, false)
  const came = await Promise.race([isReady, ended.then(() => false)])
  clearTimeout(timer)
  if (!came) refuse('unavailable', `the proxy did not start: ${sentenceOf(last)}`)
  return {
    ended: ended.then(sentenceOf),
    async finish() {
      await ask(run.engine, ['kill', '--signal', 'TERM', nameOf(run, 'proxy')])
      const late = new AbortController()
      await Promise.race([ended, pause(FINISH_MS, undefined, { signal: late.signal }).catch(() => undefined)])
      late.abort()
      return denials
    },
  }
}

/** Its log is JSON; what a person wants to read is the message. */
function sentenceOf(line: string): string {
  try {
    const entry: unknown = JSON.parse(line)
    const message = entry && typeof entry === 'object' && 'msg' in entry ? entry.msg : undefined
    return typeof message === 'string' ? message : line
  } catch {
    return line
  }
}
