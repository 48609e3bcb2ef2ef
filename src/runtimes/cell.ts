// What a run's process can see. With bubblewrap that is its own workspace, its own socket, and the machine's programs to
// read; without it, what the service itself can see. The network is kept: what leaves is another part's business.
import { spawn } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { refuse } from '../lib/refusal.ts'
import { fromEnvironment } from '../lib/settings.ts'
import { RunFault } from './runtime.ts'

/** What is shown to one process: paths of the machine, or of what runs inside. */
export interface Place {
  readonly folder: string
  readonly home: string
  readonly socket: string
  /** Files that it may read besides. */
  readonly files?: readonly string[] | undefined
}

/** How a process is started there, and where it finds its things. */
export interface Entry {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** To be written to its descriptor 3, where it has one. */
  readonly argsOn3?: string | undefined
}

export interface Cell {
  readonly kind: 'bwrap' | 'none'
  /** Where the process finds its workspace and its socket. */
  seen(place: Place): { readonly home: string; readonly socket: string }
  enter(place: Place, argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Entry>
}

const OPEN: Cell = {
  kind: 'none',
  seen: ({ home, socket }) => ({ home, socket }),
  enter: async ({ home }, argv, env) => ({ argv: [...endingWithUs(argv, env.PATH), ...argv], env, cwd: home }),
}

/**
 * What makes the kernel end a program with this process, however that ends: an agent that outlives a kill would work on
 * beside the one that is started in its place. Bubblewrap does it by itself.
 */
function endingWithUs([program = '']: readonly string[], path = ''): readonly string[] {
  const canRun = (name: string): boolean =>
    name.includes('/')
      ? isProgram(name)
      : path.split(':').some((folder) => folder !== '' && isProgram(join(folder, name)))
  // A program that is not there, or may not be run, is left to say so itself.
  return process.platform === 'linux' && canRun('setpriv') && canRun(program)
    ? ['setpriv', '--pdeathsig', 'KILL', '--']
    : []
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export const INNER_HOME = '/home/node'
export const INNER_SOCKET = '/run/ipc/gated.sock'

/** Of the machine: programs and their libraries, names and certificates. Nothing that holds anybody's data. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/opt'].concat(
  [
    'alternatives',
    'ca-certificates',
    'group',
    'hosts',
    'ld.so.cache',
    'localtime',
    'nsswitch.conf',
    'passwd',
    'pki',
    'resolv.conf',
    'ssl',
  ].map((name) => `/etc/${name}`),
)

const ROOT = resolve(fileURLToPath(new URL('../..', import.meta.url)))
/** The parts of svc that an agent runs. Not the whole folder: a checkout may hold an instance. */
const OWN = ['bin', 'src', 'dist', 'node_modules', 'package.json'].map((name) => join(ROOT, name))
/** Of an installed package, what it depends on lies beside it. */
const BESIDE = basename(dirname(ROOT)) === 'node_modules' ? [dirname(ROOT)] : []

const BARS = ['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try', '--die-with-parent'].concat([
  '--cap-drop',
  'ALL',
  '--proc',
  '/proc',
  '--dev',
  '/dev',
  '--tmpfs',
  '/tmp',
  '--tmpfs',
  '/run',
])

/**
 * The way that `SANDBOX` names. Where it says nothing, bubblewrap where that works, else none, and a warning; where it says
 * bwrap, nothing less.
 */
export async function openCell(
  wanted: 'bwrap' | 'none' | undefined,
  paths: readonly string[],
  warn: (sentence: string) => void,
): Promise<Cell> {
  if (wanted === 'none') return OPEN
  const fault = await bwrapFault()
  if (fault === undefined) return sealed(paths)
  if (wanted === 'bwrap')
    refuse('unavailable', `SANDBOX is bwrap, and ${fault}`, 'apt-get install bubblewrap, or SANDBOX=none')
  warn(`agents can read what this process can: ${fault}; install bubblewrap, or set SANDBOX=none to accept it`)
  return OPEN
}

/** Why bubblewrap cannot be used here, or nothing. */
export async function bwrapFault(): Promise<string | undefined> {
  const child = spawn('bwrap', ['--ro-bind', '/', '/', ...BARS, 'true'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: fromEnvironment('PATH') ?? '' },
    timeout: 10_000,
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(0, 500)
  })
  return new Promise((resolve) => {
    child.on('error', () => resolve('bubblewrap is not installed'))
    child.on('close', (code) => resolve(code === 0 ? undefined : `bubblewrap does not work here (${lastLine(said)})`))
  })
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) || 'it does not say why'
}

function sealed(paths: readonly string[]): Cell {
  const readable = [...SYSTEM, ...OWN, ...BESIDE, process.execPath, ...paths].filter((path) => existsSync(path))
  const shown = readable.flatMap((path) => ['--ro-bind', path, path])
  return {
    kind: 'bwrap',
    seen: () => ({ home: INNER_HOME, socket: INNER_SOCKET }),
    enter: async (place, argv, env) => {
      await mustBeItsOwn(place)
      if (!existsSync(place.socket))
        throw new RunFault('unavailable', `the tool socket of ${place.folder} is not there`)
      const files = (place.files ?? []).flatMap((path) => ['--ro-bind', path, path])
      const args = [
        ...BARS,
        ...shown,
        ...files,
        ...['--bind', place.home, INNER_HOME, '--bind', place.socket, INNER_SOCKET, '--chdir', INNER_HOME],
        // Set inside, so that no name in it can act on bubblewrap itself, and by a pipe, so that no list of processes shows it.
        '--clearenv',
        ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
      ]
      return {
        argv: ['bwrap', '--args', '3', ...argv],
        env: { PATH: fromEnvironment('PATH') ?? '' },
        cwd: '/',
        argsOn3: args.map((arg) => `${arg}\0`).join(''),
      }
    },
  }
}

/** A folder can write below itself, so it could leave a link where the workspace of another one should be. */
async function mustBeItsOwn({ folder, home }: Place): Promise<void> {
  const base = home.endsWith(`/${folder}`) ? home.slice(0, -folder.length - 1) : dirname(home)
  const [real, realBase] = await Promise.all([realpath(home), realpath(base)]).catch(() => ['', ''])
  if (real === '') throw new RunFault('terminal', `${folder} has no workspace`)
  if (real !== join(realBase, home.slice(base.length)))
    throw new RunFault('terminal', `the workspace of ${folder} is a link to somewhere else`)
}
