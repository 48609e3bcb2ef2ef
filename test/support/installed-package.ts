// The npm package, packed in a copy of the checkout and installed as docs/operating.md says, once for a whole test run. If root
// runs the tests, an ordinary user installs it.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { identityOf } from './attack.ts'
import { buildOnce, sharedFolder } from './built-once.ts'

const ROOT = dirname(dirname(import.meta.dirname))

export interface InstalledPackage {
  /** The copy of the checkout in which it was packed. */
  readonly checkout: string
  /** `~/.local` of the user who installed it. */
  readonly prefix: string
  /** The directory with its commands. */
  readonly bin: string
  /** The directory of the package below the prefix. */
  readonly directory: string
  /** What npm wrote to stderr while it installed. */
  readonly warnings: string
  /** Files of the checkout before and after `npm pack`, without node_modules. */
  readonly filesBeforePack: readonly string[]
  readonly filesAfterPack: readonly string[]
  /** The user who installed it, for `spawn`. */
  readonly identity: { readonly uid?: number; readonly gid?: number }
  /** For the processes of this user, which then compile the modules once. */
  readonly environment: Readonly<Record<'XDG_CACHE_HOME', string>>
}

/** Without the variables that npm and the test runner set for their children: they would confuse the inner npm. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const inherited = /^(npm_(package|lifecycle)_|npm_config_local_prefix$|npm_command$|INIT_CWD$|NODE_TEST_CONTEXT$)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !inherited.test(name)))
}

/** Packs and installs the package, or waits for a process that does. */
export async function installPackage(): Promise<InstalledPackage> {
  const folder = sharedFolder('installed-package')
  chmodSync(folder, 0o711)
  const home = join(folder, 'home')
  const record = join(folder, 'record.json')
  const name: string = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).name
  const paths = { checkout: join(folder, 'checkout'), prefix: join(home, '.local') }
  await buildOnce(folder, name, async () => {
    mkdirSync(paths.checkout)
    copyCheckout(paths.checkout)
    const filesBeforePack = listFiles(paths.checkout)
    run(paths.checkout, {}, 'npm', 'pack', '--silent', '--pack-destination', folder)
    const filesAfterPack = listFiles(paths.checkout)
    const warnings = install(folder, home)
    writeFileSync(record, JSON.stringify({ warnings, filesBeforePack, filesAfterPack }))
  })
  const packed: Pick<InstalledPackage, 'warnings' | 'filesBeforePack' | 'filesAfterPack'> = JSON.parse(
    readFileSync(record, 'utf8'),
  )
  return {
    ...paths,
    ...packed,
    bin: join(paths.prefix, 'bin'),
    directory: join(paths.prefix, 'lib', 'node_modules', name),
    identity: identityOf('an ordinary user'),
    environment: { XDG_CACHE_HOME: join(home, '.cache') },
  }
}

/** Returns what npm wrote to stderr. */
function install(folder: string, home: string): string {
  const [tarball = 'none.tgz'] = globSync('*.tgz', { cwd: folder })
  mkdirSync(home, { mode: 0o711 })
  // The Node of the package is in the cache since `npm ci`, but the user cannot read the cache of root.
  const setting = (key: string): string => execFileSync('npm', ['config', 'get', key], { encoding: 'utf8' }).trim()
  const cache = join(setting('cache'), '_cacache')
  mkdirSync(join(home, '.npm'))
  if (existsSync(cache)) execFileSync('cp', ['-a', cache, join(home, '.npm')])
  const { uid, gid } = identityOf('an ordinary user')
  if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${gid}`, home])
  const env = { HOME: home, npm_config_cache: join(home, '.npm'), npm_config_registry: setting('registry') }
  const args = ['install', '--global', '--prefix', join(home, '.local'), '--no-audit', '--no-fund', '--prefer-offline']
  const warnings = run(home, { env, uid, gid }, 'npm', ...args, join(folder, tarball)).stderr
  rmSync(join(home, '.npm'), { recursive: true })
  return warnings
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly uid?: number | undefined
  readonly gid?: number | undefined
}

function run(cwd: string, { env, ...user }: RunOptions, command: string, ...args: string[]): { stderr: string } {
  const options = { ...user, cwd, encoding: 'utf8', env: { ...cleanEnvironment(), ...env } } as const
  const { status, stdout, stderr } = spawnSync(command, args, options)
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}\n${stdout}\n${stderr}`)
  return { stderr }
}

/** Copies all files that a commit would contain, and node_modules: npm would not bundle what it finds through a link. */
function copyCheckout(to: string): void {
  // git refuses a clone of another user unless it is listed as safe.
  const list = ['-c', `safe.directory=${ROOT}`, 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const paths = execFileSync('git', list, { cwd: ROOT, encoding: 'utf8' }).split('\0')
  // git still lists files whose deletion is not committed.
  const isFile = (path: string): boolean => statSync(join(ROOT, path), { throwIfNoEntry: false })?.isFile() ?? false
  for (const path of paths.filter(isFile)) cpSync(join(ROOT, path), join(to, path))
  const modules = [join(ROOT, 'node_modules'), join(to, 'node_modules')]
  // Hard links where possible: it is 400 MB.
  if (spawnSync('cp', ['-al', ...modules]).status !== 0) {
    rmSync(join(to, 'node_modules'), { recursive: true, force: true })
    execFileSync('cp', ['-a', ...modules])
  }
}

function listFiles(folder: string): string[] {
  return globSync('**/*', { cwd: folder, exclude: ['node_modules'] }).sort()
}
