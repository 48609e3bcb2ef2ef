// Starts the proxy's container, waits until it is ready, and follows its log.
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { refuse } from '../../lib/refusal.ts'
import { engineSucceeds, lastLine, spawnEngine } from '../container/engine.ts'
import { componentName, type Run } from '../container/engine-args.ts'
import { Denials } from './denials.ts'

export interface ProxyContainer {
  /** Resolves with its last log line if it ends by itself. */
  readonly ended: Promise<string>
  /** Stops it and returns all denials, whose last lines come after the workload's end. */
  finish(): Promise<Denials>
}

const READY_MS = 30_000
/** Tunnels that linger at their far end are not waited for. */
const FINISH_MS = 5000

/** Refuses with its last log line if it does not start. */
export async function startProxyContainer(run: Run): Promise<ProxyContainer> {
  const child = spawnEngine(run.engine, ['start', '--attach', componentName(run, 'proxy')])
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
  const hasStarted = await Promise.race([isReady, ended.then(() => false)])
  clearTimeout(timer)
  if (!hasStarted) refuse('unavailable', `the proxy did not start: ${sentenceOf(last)}`)
  return {
    ended: ended.then(sentenceOf),
    async finish() {
      await engineSucceeds(run.engine, ['kill', '--signal', 'TERM', componentName(run, 'proxy')])
      const late = new AbortController()
      await Promise.race([ended, pause(FINISH_MS, undefined, { signal: late.signal }).catch(() => undefined)])
      late.abort()
      return denials
    },
  }
}

/** The message of a JSON log line. */
function sentenceOf(line: string): string {
  try {
    const entry: unknown = JSON.parse(line)
    const message = entry && typeof entry === 'object' && 'msg' in entry ? entry.msg : undefined
    return typeof message === 'string' ? message : line
  } catch {
    return line
  }
}
