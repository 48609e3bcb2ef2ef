// The paths of the machine that a sandbox can see: programs, libraries, certificates and the parts of svc that agents run.
// No user data, and no directory with sockets of services: a read-only mount does not prevent connecting to a socket.
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The workspace. */
export const INNER_HOME = '/home/node'
export const INNER_SOCKET = '/run/ipc/gated.sock'
/** Path of svc inside; its path on the machine may be in a home directory or below /tmp. */
const INNER_SVC = '/svc'
const INNER_NODE = '/svc-node'

const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/opt']
/** Mounted, because they are directories or change at run time. */
const SYSTEM_SETTINGS = ['alternatives', 'fonts', 'ld.so.cache', 'pki', 'ssl'].map((name) => `/etc/${name}`)
/** Copied, because a mount costs far more than a small file. */
const SMALL_SETTINGS = ['localtime', 'nsswitch.conf', 'services'].map((name) => `/etc/${name}`)

const STANDARD_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

const ROOT = resolve(fileURLToPath(new URL('../..', import.meta.url)))
/** Not the whole checkout, which may contain an instance. */
const PARTS = ['bin', 'src', 'dist', 'node_modules']
const MANIFEST = 'package.json'

/** `npm pack` puts the dependencies into the package; otherwise an installer makes them its siblings. */
const HAS_SIBLINGS = basename(dirname(ROOT)) === 'node_modules' && !existsSync(join(ROOT, 'node_modules'))

interface SvcMount {
  readonly from: string
  readonly at: string
}

function svcMounts(): SvcMount[] {
  const parts = HAS_SIBLINGS
    ? [{ from: dirname(ROOT), at: join(INNER_SVC, 'node_modules') }]
    : PARTS.map((name) => ({ from: join(ROOT, name), at: join(INNER_SVC, name) }))
  return isBelow(process.execPath, ROOT) || SYSTEM.some((path) => isBelow(process.execPath, path))
    ? parts
    : [...parts, { from: process.execPath, at: INNER_NODE }]
}

export class CellPaths {
  readonly #extra: readonly string[]

  /** `extra` are absolute paths that the operator has chosen (SANDBOX_PATHS). */
  constructor(extra: readonly string[]) {
    this.#extra = extra
  }

  /** Mounted paths outside the system directories. */
  sources(): string[] {
    return [...svcMounts().map(({ from }) => from), ...this.#extra].filter((path) => existsSync(path))
  }

  /** Arguments of bubblewrap; `pathForBwrap` maps a path to where bubblewrap finds it. */
  mounts(pathForBwrap: (path: string) => string = (path) => path): string[] {
    const system = SYSTEM.flatMap((path) => {
      if (!existsSync(path) || (path === '/opt' && readdirSync(path).length === 0)) return []
      return lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
    })
    const others = [
      ...[...SYSTEM_SETTINGS, ...javaSettings()].map((path) => ({ from: path, at: path })),
      ...svcMounts(),
      ...this.#extra.map((path) => ({ from: path, at: path })),
    ].filter(({ from }) => existsSync(from))
    return [...system, ...others.flatMap(({ from, at }) => ['--ro-bind', pathForBwrap(from), at])]
  }

  /** Contents of small files, by their path inside. */
  smallFiles(): Map<string, Buffer> {
    const small = SMALL_SETTINGS.map((path) => ({ from: path, at: path }))
    const manifest = HAS_SIBLINGS ? [] : [{ from: join(ROOT, MANIFEST), at: join(INNER_SVC, MANIFEST) }]
    const found = [...small, ...manifest].filter(({ from }) => existsSync(from))
    return new Map(found.map(({ from, at }) => [at, readFileSync(from)]))
  }

  /** Path inside of a file of svc or the system. */
  pathInside(path: string): string {
    if (isBelow(path, ROOT)) {
      const root = HAS_SIBLINGS ? join(INNER_SVC, 'node_modules', basename(ROOT)) : INNER_SVC
      return join(root, relative(ROOT, path))
    }
    if (path === process.execPath && !SYSTEM.some((visible) => isBelow(path, visible))) return INNER_NODE
    return path
  }

  /** The visible directories of a PATH, then the standard ones. */
  searchPath(path: string): string {
    const visible = path.split(':').filter((folder) => this.isVisible(folder))
    return [...new Set([...visible, ...STANDARD_PATH.split(':')])].join(':')
  }

  /** Whether this path is visible inside under the same name. */
  isVisible(path: string): boolean {
    return [...SYSTEM, ...this.#extra].some((visible) => path === visible || isBelow(path, visible))
  }
}

/** Debian keeps parts of a JVM in /etc/java-<version>. */
function javaSettings(): string[] {
  return readdirSync('/etc').flatMap((name) => (name.startsWith('java') ? [`/etc/${name}`] : []))
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder + sep)
}
