// Starts a container of a run that prints `ready`, and follows its log.
import { createInterface } from 'node:readline'
import { refuse } from '../../lib/refusal.ts'
import { lastLine, spawnEngine } from '../container/engine.ts'
import { componentName, type Run } from '../container/engine-args.ts'

export interface StartedComponent {
  /** Resolves with its last log line if it ends by itself. */
  readonly ended: Promise<string>
}

const READY_MS = 30_000

/** Refuses with its last log line if it does not start. `read` gets all lines. */
export async function startComponent(
  run: Run,
  part: 'holder' | 'proxy',
  { label, read }: { readonly label: string; read?(line: string): void },
): Promise<StartedComponent> {
  const child = spawnEngine(run.engine, ['start', '--attach', componentName(run, part)])
  const { promise: isReady, resolve } = Promise.withResolvers<boolean>()
  let last = 'it gave no reason'
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue
    createInterface({ input: stream }).on('line', (line) => {
      if (stream === child.stdout && line === 'ready') resolve(true)
      last = lastLine(line) ?? last
      read?.(line)
    })
  }
  const ended = new Promise<string>((done) =>
    child.on('error', ({ message }) => done(message)).on('close', () => done(last)),
  )
  const timer = setTimeout(resolve, READY_MS, false)
  const hasStarted = await Promise.race([isReady, ended.then(() => false)])
  clearTimeout(timer)
  if (!hasStarted) refuse('unavailable', `${label} did not start: ${sentenceOf(last)}`)
  return { ended: ended.then(sentenceOf) }
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
