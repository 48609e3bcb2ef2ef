// The image of the Dockerfile, built once for a whole test run. No registry can be reached, so its base images are made of Debian
// packages: mmdebstrap makes the base, and the builder is the base with Node and npm.
import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { buildOnce, sharedFolder } from './built-once.ts'
import { type ContainerEngine, openContainerEngine } from './container-engine.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)
const OUTPUT = { maxBuffer: 1 << 26 }

/** Names a directory that keeps the image between runs, for tests that are run again and again. */
const KEPT_FOLDER = 'SVC_TEST_IMAGES'

export const SVC_IMAGE = `svc-host:${JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version}`

export interface BuiltImage {
  /** For `docker load`. */
  readonly archive: string
  /** The data of the engine that built it. With it, `docker build` finds every step in its cache and needs no network. */
  readonly dataRoot: string
}

/** Files like those of Debian's slim images: no documentation and no translations. */
const LEFT_OUT = ['man', 'doc', 'info', 'locale'].map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`)
/** Of the two packages for a merged /usr, this one needs no Perl modules. */
const NO_USRMERGE = `printf 'Package: usrmerge\\nPin: release *\\nPin-Priority: -1\\n' > "$1"/etc/apt/preferences.d/no-usrmerge`

/** Loads the image into an engine, as `SVC_IMAGE`. */
export async function loadSvcImage(engine: ContainerEngine): Promise<void> {
  const { archive } = await buildSvcImage()
  await engine.docker('load', '--quiet', '--input', archive)
}

/** Builds the image, or waits for a process that builds it. */
export async function buildSvcImage(): Promise<BuiltImage> {
  const folder = sharedFolder('svc-image', process.env[KEPT_FOLDER])
  const image = { archive: join(folder, 'image.tar'), dataRoot: join(folder, 'data') }
  await buildOnce(folder, hashInputs(), () => build(folder, image))
  return image
}

/** Of everything that .dockerignore lets into a build. */
function hashInputs(): string {
  const files = ['Dockerfile', '.dockerignore', 'package*.json', 'tsconfig*.json', '{src,bin,packages,products}/**/*.*']
  const lines = globSync(files, { cwd: ROOT })
    .filter((path) => !path.endsWith('.test.ts'))
    .sort()
    .map((path) => `${path} ${hash('sha256', readFileSync(join(ROOT, path)))}`)
  return hash('sha256', lines.join('\n'))
}

async function build(folder: string, { archive, dataRoot }: BuiltImage): Promise<void> {
  const base = join(folder, 'base.tar')
  const npm = join(folder, 'npm')
  if (!existsSync(base)) await Promise.all([writeBase(base), installNpm(npm)])
  const server = mkdtempSync(join(folder, 'engine-'))
  const engine = await openContainerEngine(server, [], { dataRoot, isBuilder: true })
  try {
    const { BASE, BUILDER } = baseImages()
    if (!(await engine.docker('images', '--quiet', BASE))) await engine.docker('import', base, BASE)
    await dockerBuild(engine, npm, BUILDER)
    await dockerBuild(engine, ROOT, SVC_IMAGE)
    await engine.docker('save', '--output', archive, SVC_IMAGE)
  } finally {
    await engine.stop()
    rmSync(server, { recursive: true, force: true })
  }
}

/** By the builder of the engine itself: the newer one is a package of its own. */
async function dockerBuild(engine: ContainerEngine, context: string, name: string): Promise<void> {
  const env = { ...process.env, ...engine.environment, DOCKER_BUILDKIT: '0' }
  await run('docker', ['build', '--quiet', '--network', 'host', '--tag', name, context], { env, ...OUTPUT })
}

/** The defaults in the Dockerfile, so that its commands work as printed. */
export function baseImages(): { BASE: string; BUILDER: string } {
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
  const defaultOf = (name: string): string => {
    const [, value] = new RegExp(`^ARG ${name}=(\\S+)$`, 'm').exec(text) ?? []
    if (!value) throw new Error(`the Dockerfile has no ARG ${name}`)
    return value
  }
  return { BASE: defaultOf('BASE'), BUILDER: defaultOf('BUILDER') }
}

/** From the package sources of this machine. */
async function writeBase(path: string): Promise<void> {
  const format = 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)'
  const { stdout } = await run('apt-get', [
    'indextargets',
    '--format',
    format,
    'Created-By: Packages',
    'Origin: Debian',
  ])
  const sources = `${path}.sources.list`
  writeFileSync(sources, [...new Set(stdout.split('\n'))].join('\n'))
  const options = [
    ...['--quiet', '--variant=apt', '--include=libatomic1', '--dpkgopt=force-unsafe-io', ...LEFT_OUT],
    ...['--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr', `--setup-hook=${NO_USRMERGE}`],
  ]
  await run('mmdebstrap', [...options, '', `${path}.new.tar`, sources], OUTPUT)
  renameSync(`${path}.new.tar`, path)
}

/** Like the official Node images: below /usr/local. With the settings and certificates of this machine's npm. */
async function installNpm(folder: string): Promise<void> {
  const local = join(folder, 'usr', 'local')
  const certificates = 'etc/ssl/certs/ca-certificates.crt'
  mkdirSync(join(folder, dirname(certificates)), { recursive: true })
  cpSync(join('/', certificates), join(folder, certificates))
  await run('npm', ['install', '--silent', '--global', '--prefix', local, 'npm@11'], OUTPUT)
  cpSync(process.execPath, join(local, 'bin', 'node'))
  mkdirSync(join(local, 'etc'), { recursive: true })
  const { stdout } = await run('npm', ['config', 'get', 'registry'])
  writeFileSync(join(local, 'etc', 'npmrc'), `registry=${stdout.trim()}\ncafile=/${certificates}\n`)
  const lines = [`FROM ${baseImages().BASE}`, 'COPY usr/ /usr/', 'COPY etc/ /etc/']
  writeFileSync(join(folder, 'Dockerfile'), `${lines.join('\n')}\n`)
}
