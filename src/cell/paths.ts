// What of the machine a cell shows, and where. Programs and their libraries, certificates, and the parts of svc that agents
// run; nothing that holds data of anybody, and no directory in which services keep their sockets (a read-only mount does
// not keep anybody from connecting to a socket).
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The workspace. */
export const INNER_HOME = '/home/node'
export const INNER_SOCKET = '/run/ipc/gated.sock'
/** Where a cell shows svc itself: not at its place on the machine, which may lie in a home or below /tmp. */
const INNER_SVC = '/svc'
const INNER_NODE = '/svc-node'

const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/opt']
/** Mounted, because they are directories or change while svc runs. */
const SYSTEM_SETTINGS = ['alternatives', 'fonts', 'ld.so.cache', 'pki', 'ssl'].map((name) => `/etc/${name}`)
/** Copied: a mount costs far more than a small file. */
const SMALL_SETTINGS = ['localtime', 'nsswitch.conf', 'services'].map((name) => `/etc/${name}`)

const STANDARD_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

const ROOT = resolve(fileURLToPath(new URL('../..', import.meta.url)))
/** Not the whole folder: a checkout may hold an instance. */
const PARTS = ['bin', 'src', 'dist', 'node_modules']
const MANIFEST = 'package.json'

/** Of an installed package, what it depends on lies beside it. */
const IS_INSTALLED = basename(dirname(ROOT)) === 'node_modules'

interface Shown {
  readonly from: string
  readonly at: string
}

function shownOfSvc(): Shown[] {
  const parts = IS_INSTALLED
    ? [{ from: dirname(ROOT), at: join(INNER_SVC, 'node_modules') }]
    : PARTS.map((name) => ({ from: join(ROOT, name), at: join(INNER_SVC, name) }))
  return isBelow(process.execPath, ROOT) || SYSTEM.some((path) => isBelow(process.execPath, path))
    ? parts
    : [...parts, { from: process.execPath, at: INNER_NODE }]
}

export class CellPaths {
  readonly #extra: readonly string[]

  /** `extra` are absolute paths of the operator's choice, shown where they are. */
  constructor(extra: readonly string[]) {
    this.#extra = extra
  }

  /** What is mounted besides the system itself. */
  sources(): string[] {
    return [...shownOfSvc().map(({ from }) => from), ...this.#extra].filter((path) => existsSync(path))
  }

  /** Arguments of bubblewrap; `seenAt` says where bubblewrap finds a path. */
  mounts(seenAt: (path: string) => string = (path) => path): string[] {
    const system = SYSTEM.flatMap((path) => {
      if (!existsSync(path) || (path === '/opt' && readdirSync(path).length === 0)) return []
      return lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
    })
    const others = [
      ...[...SYSTEM_SETTINGS, ...javaSettings()].map((path) => ({ from: path, at: path })),
      ...shownOfSvc(),
      ...this.#extra.map((path) => ({ from: path, at: path })),
    ].filter(({ from }) => existsSync(from))
    return [...system, ...others.flatMap(({ from, at }) => ['--ro-bind', seenAt(from), at])]
  }

  /** Small files of the machine, by their path inside. */
  texts(): Map<string, Buffer> {
    const small = SMALL_SETTINGS.map((path) => ({ from: path, at: path }))
    const manifest = IS_INSTALLED ? [] : [{ from: join(ROOT, MANIFEST), at: join(INNER_SVC, MANIFEST) }]
    const found = [...small, ...manifest].filter(({ from }) => existsSync(from))
    return new Map(found.map(({ from, at }) => [at, readFileSync(from)]))
  }

  /** Where a cell shows a file of svc, or of the system. */
  inner(path: string): string {
    if (isBelow(path, ROOT)) {
      const root = IS_INSTALLED ? join(INNER_SVC, 'node_modules', basename(ROOT)) : INNER_SVC
      return join(root, relative(ROOT, path))
    }
    if (path === process.execPath && !SYSTEM.some((shown) => isBelow(path, shown))) return INNER_NODE
    return path
  }

  /** The directories of a search path that a cell shows, behind the standard ones. */
  searchPath(path: string): string {
    const shown = path.split(':').filter((folder) => this.shows(folder))
    return [...new Set([...shown, ...STANDARD_PATH.split(':')])].join(':')
  }

  /** Whether a cell shows this path of the machine at its place. */
  shows(path: string): boolean {
    return [...SYSTEM, ...this.#extra].some((visible) => path === visible || isBelow(path, visible))
  }
}

/** Debian keeps parts of a JVM there, in a directory with its version. */
function javaSettings(): string[] {
  return readdirSync('/etc').flatMap((name) => (name.startsWith('java') ? [`/etc/${name}`] : []))
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder + sep)
}
