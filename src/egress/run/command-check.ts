// Whether the command of a workload exists in its container, looked at before the start. The init process that starts the
// command reports a missing one with an exit code that differs between engines, and some use one that means anything.
import { posix } from 'node:path'
import { call, readStart } from './engine.ts'
import { nameOf, type Run, type Workload } from './parts.ts'

/** Thrown for a command that the container cannot run, with the exit code that shells use for it. */
export class CommandFault extends Error {
  readonly code: 126 | 127

  constructor(code: 126 | 127, sentence: string) {
    super(sentence)
    this.code = code
  }
}

/** `unknown` where the engine does not tell: the start will show it. */
type Found = 'runs' | 'not-executable' | 'missing' | 'unknown'

/** Where programs are looked for when the image does not say. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const LINKS_MAX = 16
const EXECUTABLE = 0o111
/** What the engines say of a path that the container does not have. */
const NO_SUCH = /no such|could not (?:find|be found)/i

/** The container must exist already, and need not run. */
export async function mustBeRunnable(run: Run, { image, command: [program = ''] }: Workload): Promise<void> {
  let isThere = false
  for (const path of await pathsOf(run, program)) {
    const found = await findAt(run, path)
    if (found === 'runs' || found === 'unknown') return
    isThere ||= found === 'not-executable'
  }
  const shown = JSON.stringify(program)
  if (isThere) throw new CommandFault(126, `${shown} in the image ${image} is not executable`)
  throw new CommandFault(127, `there is no command ${shown} in the image ${image}`)
}

/** As `execvp` looks for it. */
async function pathsOf(run: Run, program: string): Promise<string[]> {
  const format = '{{json .Config.WorkingDir}} {{json .Config.Env}}'
  const said = await call(run.engine, ['container', 'inspect', '--format', format, nameOf(run, 'workload')])
  const [, directory = '""', variables = 'null'] = /^("(?:[^"\\]|\\.)*") (.*)$/s.exec(said) ?? []
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
    // Some engines answer with the link, others with what it leads to.
    const { bytes, complaint } = await readStart(
      run.engine,
      ['cp', `${nameOf(run, 'workload')}:${at}`, '-'],
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

/** Of the first file of an archive. */
function readTarHead(bytes: Buffer): { readonly kind: string; readonly mode: number; readonly link: string } {
  const text = (start: number, end: number): string => bytes.toString('utf8', start, end).replace(/\0.*$/s, '')
  return {
    kind: bytes.toString('latin1', 156, 157),
    mode: Number.parseInt(text(100, 108), 8),
    link: text(157, 257),
  }
}
