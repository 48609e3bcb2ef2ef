// Checks before the start that the workload's command exists in its container. The init process reports a missing command with an
// exit code that differs between engines and may mean anything else.
import { posix } from 'node:path'
import { readEngineOutputStart, runEngine } from './engine.ts'
import { componentName, type Run, type Workload } from './engine-args.ts'

/** The container cannot run the command; has the exit code that shells use for that. */
export class CommandNotRunnableError extends Error {
  readonly code: 126 | 127

  constructor(code: 126 | 127, sentence: string) {
    super(sentence)
    this.code = code
  }
}

/** `unknown` if the engine does not report it: the start will show it. */
type Found = 'runs' | 'not-executable' | 'missing' | 'unknown'

/** The search path if the image sets none. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const LINKS_MAX = 16
const EXECUTABLE = 0o111
/** How engines report a path that the container does not have. */
const NO_SUCH = /no such|could not (?:find|be found)/i

/** The container must exist; it need not run. */
export async function checkCommandRunnable(run: Run, { image, command: [program = ''] }: Workload): Promise<void> {
  let isThere = false
  for (const path of await pathsOf(run, program)) {
    const found = await findAt(run, path)
    if (found === 'runs' || found === 'unknown') return
    isThere ||= found === 'not-executable'
  }
  const shown = JSON.stringify(program)
  if (isThere) throw new CommandNotRunnableError(126, `${shown} in the image ${image} is not executable`)
  throw new CommandNotRunnableError(127, `no command ${shown} in the image ${image}`)
}

/** Searches like `execvp`. */
async function pathsOf(run: Run, program: string): Promise<string[]> {
  const format = '{{json .Config.WorkingDir}} {{json .Config.Env}}'
  const output = await runEngine(run.engine, [
    'container',
    'inspect',
    '--format',
    format,
    componentName(run, 'workload'),
  ])
  const [, directory = '""', variables = 'null'] = /^("(?:[^"\\]|\\.)*") (.*)$/s.exec(output) ?? []
  const from = posix.join('/', String(JSON.parse(directory)))
  if (program.includes('/')) return [posix.resolve(from, program)]
  const list: unknown = JSON.parse(variables)
  const texts = Array.isArray(list) ? list.map(String) : []
  const path = texts.findLast((text) => text.startsWith('PATH='))?.slice('PATH='.length) || DEFAULT_PATH
  return [...new Set(path.split(':').map((folder) => posix.resolve(from, folder, program)))]
}

async function findAt(run: Run, path: string): Promise<Found> {
  let at = path
  for (let links = 0; links < LINKS_MAX; links++) {
    // Some engines return the link, others its target.
    const { bytes, complaint } = await readEngineOutputStart(
      run.engine,
      ['cp', `${componentName(run, 'workload')}:${at}`, '-'],
      HEAD_BYTES,
    )
    if (bytes.length < HEAD_BYTES) return NO_SUCH.test(complaint) ? 'missing' : 'unknown'
    const { kind, mode, link } = readTarHead(bytes)
    if (kind === '2') at = posix.resolve(posix.dirname(at), link)
    else if (kind === '5') return 'not-executable'
    else if (kind === '0' || kind === '\0') return mode & EXECUTABLE ? 'runs' : 'not-executable'
    else return 'unknown'
  }
  return 'missing'
}

const HEAD_BYTES = 512

/** Reads the header of the first file of an archive. */
function readTarHead(bytes: Buffer): { readonly kind: string; readonly mode: number; readonly link: string } {
  const text = (start: number, end: number): string => bytes.toString('utf8', start, end).replace(/\0.*$/s, '')
  return {
    kind: bytes.toString('latin1', 156, 157),
    mode: Number.parseInt(text(100, 108), 8),
    link: text(157, 257),
  }
}
