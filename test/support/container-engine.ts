// A container engine for one test: dockerd of Debian in its own network namespace, so that rules and bridges of the machine stay
// unchanged. Its image consists of files of this machine, because no registry can be reached.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { until } from './until.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

/** Programs that the workloads of the tests use besides Node. */
const PROGRAMS = ['sh', 'cat', 'env', 'sleep', 'curl', 'ip', 'getent']
/** Loaded by name for DNS lookups, so they are not listed as dependencies. */
const LOOKUP_LIBRARIES = /^lib(nss_files|nss_dns|resolv)\.so\.2$/

export interface ContainerEngine {
  /** The environment for `docker`. */
  readonly environment: Readonly<Record<string, string>>
  readonly socket: string
  docker(...args: string[]): Promise<string>
  /** Runs a command in the network of the engine, whose loopback has these addresses. */
  inside(command: readonly string[]): string[]
  /** Ends the server, which ends its containers. */
  terminate(): Promise<void>
  stop(): Promise<void>
}

export interface EngineOptions {
  /** Images and containers of an earlier engine; by default a new directory. */
  readonly dataRoot?: string
  /** In the network of the machine, with no network of its own: for builds, which install packages. */
  readonly isBuilder?: boolean
}

/** Starts the engine. Adds `addresses` to its loopback; the DNS server is 127.0.0.1. */
export async function openContainerEngine(
  folder: string,
  addresses: readonly string[],
  { dataRoot = join(folder, 'data'), isBuilder = false }: EngineOptions = {},
): Promise<ContainerEngine> {
  const socket = join(folder, 'docker.sock')
  const resolver = join(folder, 'resolv.conf')
  writeFileSync(resolver, 'nameserver 127.0.0.1\n')
  const hosts = join(folder, 'hosts')
  writeFileSync(hosts, '127.0.0.1 localhost\n192.0.2.99 private-name\n')
  writeFileSync(join(folder, 'daemon.json'), '{}')
  const dockerd = [
    ...['dockerd', '--host', `unix://${socket}`, '--config-file', join(folder, 'daemon.json')],
    ...['--data-root', dataRoot, '--exec-root', join(folder, 'exec'), '--pidfile', join(folder, 'pid')],
    ...(isBuilder ? ['--bridge=none', '--iptables=false', '--ip-forward=false'] : []),
  ]
  const network = [
    'ip link set lo up',
    ...addresses.map((address) => `ip address add ${address} dev lo`),
    `mount --bind ${resolver} /etc/resolv.conf`,
    `mount --bind ${hosts} /etc/hosts`,
  ]
  const script = [
    'set -e',
    ...(isBuilder ? [] : network),
    // Hide an engine of the machine and its files.
    'mkdir -p /etc/docker',
    'mount -t tmpfs none /etc/docker',
    'mount -t tmpfs none /run',
    // It ends with the test process, even if that is killed.
    'exec setpriv --pdeathsig TERM "$@"',
  ].join('\n')
  const spaces = isBuilder ? ['--mount'] : ['--net', '--mount']
  const server = spawn('unshare', [...spaces, 'sh', '-c', script, 'sh', ...dockerd], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  server.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4000)
  })
  const ended = once(server, 'exit')
  const environment = { DOCKER_HOST: `unix://${socket}` }
  const docker = async (...args: string[]): Promise<string> => {
    const { stdout } = await run('docker', args, { env: { ...process.env, ...environment }, maxBuffer: 1 << 26 })
    return stdout.trim()
  }
  const isUp = async (): Promise<boolean> => {
    if (server.exitCode !== null) throw new Error(`dockerd did not start: ${said}`)
    return docker('version').then(
      () => true,
      () => false,
    )
  }
  await until(isUp)
  const terminate = async (): Promise<void> => {
    server.kill('SIGTERM')
    await ended
  }
  return {
    environment,
    socket,
    docker,
    inside: (command) => ['nsenter', `--net=/proc/${server.pid}/ns/net`, ...command],
    terminate,
    stop: async () => {
      // A container that does not stop would delay the server.
      const left = await docker('ps', '--all', '--quiet').catch(() => '')
      if (left) await docker('rm', '--force', ...left.split('\n')).catch(() => '')
      await terminate()
    },
  }
}

/** Builds an image with `egress-proxy`, Node and a few programs and `more`, with their libraries. */
export async function buildImage(
  engine: ContainerEngine,
  folder: string,
  name: string,
  more: { readonly programs?: readonly string[]; readonly directories?: readonly string[] } = {},
): Promise<void> {
  const root = join(folder, 'image')
  for (const path of ['tmp', 'etc', 'usr/local/bin', 'opt/egress-proxy'])
    mkdirSync(join(root, path), { recursive: true })
  // An engine gives a file system in memory the mode of the directory below.
  chmodSync(join(root, 'tmp'), 0o1777)
  const found = [...PROGRAMS, ...(more.programs ?? [])].map(locate)
  for (const path of found) await copyProgram(root, path, path)
  // As on Debian, where `/bin/sh` of the first line of scripts is `/usr/bin/sh`.
  if (!existsSync(join(root, 'bin'))) symlinkSync('usr/bin', join(root, 'bin'))
  await copyProgram(root, realpathSync(process.execPath), '/usr/local/bin/node')
  for (const path of more.directories ?? []) cpSync(path, join(root, path), { recursive: true, verbatimSymlinks: true })
  copyTree(join(root, 'opt/egress-proxy'))
  symlinkSync('/opt/egress-proxy/bin/egress-proxy.js', join(root, 'usr/local/bin/egress-proxy'))
  const paths = ['/usr/local/bin', ...new Set(found.map((path) => dirname(path)))]
  const tar = spawn('tar', ['--create', '--directory', root, '.'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const docker = spawn('docker', ['import', '--change', `ENV PATH=${paths.join(':')}`, '-', name], {
    env: { ...process.env, ...engine.environment },
    stdio: [tar.stdout, 'ignore', 'inherit'],
  })
  const [code] = await once(docker, 'exit')
  if (code !== 0) throw new Error('the image could not be made')
}

function locate(program: string): string {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin']
  const path = folders.map((folder) => join(folder, program)).find((each) => existsSync(each))
  if (!path) throw new Error(`there is no ${program}`)
  return path
}

/** Follows links, so that each path contains the file itself. */
async function copyProgram(root: string, path: string, to: string): Promise<void> {
  copy(realpathSync(path), join(root, to))
  const { stdout } = await run('ldd', [realpathSync(path)])
  const libraries = [...stdout.matchAll(/(?:=> |^\s*)(\/\S+)/gm)].map(([, library = '']) => library)
  for (const library of libraries) {
    copy(realpathSync(library), join(root, library))
    const folder = dirname(library)
    for (const name of readdirSync(folder).filter((each) => LOOKUP_LIBRARIES.test(each)))
      copy(realpathSync(join(folder, name)), join(root, folder, name))
  }
}

function copy(from: string, to: string): void {
  if (!existsSync(to)) cpSync(from, to)
}

/** The files that `npm install` would add: the program and the dependencies that the proxy uses. */
function copyTree(to: string): void {
  cpSync(join(ROOT, 'package.json'), join(to, 'package.json'))
  for (const folder of ['bin', 'src/lib', 'src/egress']) {
    const isWanted = (path: string): boolean => !path.endsWith('.test.ts')
    cpSync(join(ROOT, folder), join(to, folder), { recursive: true, filter: isWanted })
  }
  for (const name of dependencies(['zod', 'smol-toml', 'pino', 'hono', '@hono/node-server', 'tldts'])) {
    const path = relative(ROOT, join(ROOT, 'node_modules', name))
    cpSync(join(ROOT, path), join(to, path), { recursive: true })
  }
}

/** Lists these packages and all their dependencies. */
function dependencies(names: readonly string[], seen = new Set<string>()): Set<string> {
  for (const name of names) {
    if (seen.has(name)) continue
    seen.add(name)
    const manifest: { dependencies?: Record<string, string> } = JSON.parse(
      readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8'),
    )
    dependencies(Object.keys(manifest.dependencies ?? {}), seen)
  }
  return seen
}
