// Reads a package from a git repository. The repository is fetched into a temporary bare one, and its files are read from
// there without a checkout: no hook, filter, submodule or symbolic link of it is ever used.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readEnvironment } from '../../lib/environment.ts'
import { makeProcessDirectory, removeProcessDirectory } from '../../lib/files/process-directory.ts'
import { refuse } from '../../lib/refusal.ts'
import { isIgnoredEntry, type PackageEntry, type PackageFile, type PackageTree, TreeLimits } from './package-tree.ts'

const TIMEOUT_MS = 120_000
const KILL_AFTER_MS = 3000
const PACK_MAX_BYTES = 64 * 1024 * 1024
const ULIMIT_BLOCK = 512
/** Of what git prints. The contents of a package are at most 16 MiB. */
const OUTPUT_MAX_BYTES = 32 * 1024 * 1024
const STDERR_KEPT = 4096
const REF = 'refs/svc/package'
/** Passed on to git. Its own variables and the configuration of the user are not. */
const PASSED = [
  'PATH',
  'HOME',
  'SSH_AUTH_SOCK',
  'HTTPS_PROXY',
  'https_proxy',
  'ALL_PROXY',
  'all_proxy',
  'NO_PROXY',
  'no_proxy',
]

export interface GitSource {
  readonly url: string
  /** Branch, tag or commit; by default the repository's HEAD. */
  readonly ref?: string | undefined
  /** As recorded. */
  readonly source: string
}

export interface FetchOptions {
  onProgress?(text: string): void
  readonly timeoutMs?: number
  /** Of the file that the fetch writes. */
  readonly maxBytes?: number
}

export async function readGitPackage(git: GitSource, options: FetchOptions = {}): Promise<PackageTree> {
  const dir = makeProcessDirectory('svc-package-', 0o700)
  try {
    const repository = new Repository(dir, git, options)
    const revision = await repository.fetch()
    const entries = await repository.list(revision)
    const limits = new TreeLimits(git.source)
    for (const entry of entries) limits.check(entry)
    return { source: git.source, revision, files: await repository.read(entries) }
  } finally {
    removeProcessDirectory(dir)
  }
}

interface ListedFile extends PackageEntry {
  readonly object: string
  readonly isExecutable: boolean
}

class Repository {
  readonly #dir: string
  readonly #git: GitSource
  readonly #options: FetchOptions
  readonly #deadlineMs: number
  readonly #maxBytes: number

  constructor(dir: string, git: GitSource, options: FetchOptions) {
    this.#dir = dir
    this.#git = git
    this.#options = options
    this.#maxBytes = options.maxBytes ?? PACK_MAX_BYTES
    this.#deadlineMs = performance.now() + (options.timeoutMs ?? TIMEOUT_MS)
  }

  /** Returns the hash of the fetched commit. */
  async fetch(): Promise<string> {
    const { url, ref = 'HEAD' } = this.#git
    await this.#run(['init', '--quiet', '--bare', '--template=', '.'])
    const options = ['--progress', '--depth=1', '--no-tags', '--no-recurse-submodules', '--no-auto-maintenance']
    await this.#run(['fetch', ...options, '--', url, `+${ref}:${REF}`], { isFetch: true })
    const commit = await this.#run(['rev-parse', '--verify', '--quiet', `${REF}^{commit}`])
    return commit.toString().trim()
  }

  async list(commit: string): Promise<ListedFile[]> {
    const listing = await this.#run(['ls-tree', '-r', '-l', '-z', '--full-tree', commit])
    const lines = listing.toString().split('\0').filter(Boolean)
    return lines.map(readListedFile).filter(({ path }) => !isIgnoredEntry(path.split('/', 1)[0] ?? ''))
  }

  async read(entries: readonly ListedFile[]): Promise<Map<string, PackageFile>> {
    const input = entries.map(({ object }) => `${object}\n`).join('')
    const output = await this.#run(['cat-file', '--batch'], { input })
    const files = new Map<string, PackageFile>()
    let at = 0
    for (const { path, object, size, isExecutable } of entries) {
      const header = `${object} blob ${size}\n`
      if (output.toString('latin1', at, at + header.length) !== header)
        refuse('invalid', `cannot read ${path} of ${this.#git.source}: git printed something else`)
      at += header.length
      files.set(path, { data: Buffer.from(output.subarray(at, at + size)), isExecutable })
      at += size + 1
    }
    return files
  }

  async #run(args: readonly string[], { input = '', isFetch = false } = {}): Promise<Buffer> {
    const leftMs = this.#deadlineMs - performance.now()
    // The shell sets a limit that Node cannot, so that no repository fills the disk.
    const script = 'ulimit -f "$1" 2>/dev/null; shift; exec git "$@"'
    const blocks = String(this.#maxBytes / ULIMIT_BLOCK)
    const child = spawn('/bin/sh', ['-c', script, 'sh', blocks, ...CONFIG, ...args], {
      cwd: this.#dir,
      env: gitEnvironment(),
      stdio: 'pipe',
    })
    const exit = await collect(child, input, { leftMs, onProgress: isFetch ? this.#options.onProgress : undefined })
    if (exit.code === 0) return exit.stdout
    return this.#refuse(exit)
  }

  async #refuse({ code, isTimeout, stderr }: GitExit): Promise<never> {
    const { source } = this.#git
    if (isTimeout) refuse('unavailable', `cannot fetch ${source}: it takes longer than allowed`, 'try again later')
    if (code === 127 || /git: (?:not found|command not found)/.test(stderr))
      refuse('unavailable', 'git is not installed', 'install it, or copy the package to a directory and install that')
    if (/dubious ownership/.test(stderr))
      refuse(
        'forbidden',
        `cannot fetch ${source}: the repository belongs to another user`,
        'run svc as its owner, or clone it and install the directory',
      )
    if (await this.#isTooLarge())
      refuse('too_large', `cannot fetch ${source}: the repository is larger than ${this.#maxBytes} bytes`)
    refuse('unavailable', `cannot fetch ${source}: ${reasonIn(stderr)}`)
  }

  async #isTooLarge(): Promise<boolean> {
    const packs = join(this.#dir, 'objects', 'pack')
    const names = await readdir(packs).catch((): string[] => [])
    return names.some((name) => {
      const { size } = statSync(join(packs, name), { throwIfNoEntry: false }) ?? { size: 0 }
      return size >= this.#maxBytes
    })
  }
}

const CONFIG = [
  ...['-c', 'core.hooksPath=/dev/null', '-c', 'core.askPass=', '-c', 'credential.helper='],
  ...['-c', 'fetch.fsckObjects=true', '-c', 'transfer.unpackLimit=1', '-c', 'core.bigFileThreshold=1m'],
  ...['-c', 'gc.auto=0', '-c', 'http.lowSpeedLimit=1000', '-c', 'http.lowSpeedTime=30'],
]

function gitEnvironment(): Record<string, string> {
  const passed = PASSED.flatMap((name) => {
    const value = readEnvironment(name)
    return value === undefined ? [] : [[name, value] as const]
  })
  return {
    ...Object.fromEntries(passed),
    LC_ALL: 'C',
    GIT_ALLOW_PROTOCOL: 'https:ssh:file',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_SSH_COMMAND: 'ssh -oBatchMode=yes -oConnectTimeout=30',
    GIT_TERMINAL_PROMPT: '0',
  }
}

interface GitExit {
  readonly code: number | null
  readonly isTimeout: boolean
  readonly stdout: Buffer
  /** Its end. */
  readonly stderr: string
}

async function collect(
  child: ChildProcess,
  input: string,
  { leftMs, onProgress }: { readonly leftMs: number; readonly onProgress?: ((text: string) => void) | undefined },
): Promise<GitExit> {
  const chunks: Buffer[] = []
  const state = { length: 0, stderr: '', isTimeout: false }
  const kill = setTimeout(() => child.kill('SIGKILL'), Math.max(0, leftMs) + KILL_AFTER_MS)
  const stop = setTimeout(
    () => {
      state.isTimeout = true
      child.kill('SIGTERM')
    },
    Math.max(0, leftMs),
  )
  child.stdout?.on('data', (chunk: Buffer) => {
    state.length += chunk.length
    if (state.length > OUTPUT_MAX_BYTES) child.kill('SIGKILL')
    else chunks.push(chunk)
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    state.stderr = `${state.stderr}${chunk.toString()}`.slice(-STDERR_KEPT)
    onProgress?.(lastLine(chunk.toString()))
  })
  // git may exit without reading everything.
  child.stdin?.on('error', () => {})
  child.stdin?.end(input)
  try {
    const [code] = await once(child, 'close')
    const { isTimeout, stderr } = state
    return { code: typeof code === 'number' ? code : null, isTimeout, stdout: Buffer.concat(chunks), stderr }
  } finally {
    clearTimeout(kill)
    clearTimeout(stop)
  }
}

function lastLine(text: string): string {
  return text.split(/[\r\n]/).findLast((line) => line.trim() !== '') ?? ''
}

/** The lines of git that say why, without those about its progress. */
function reasonIn(stderr: string): string {
  const lines = stderr
    .split(/[\r\n]+/)
    .map((line) => line.replace(/[\u0000-\u001f\u007f-\u009f]/g, '').trim())
    .filter((line) => /^(?:fatal|error|ssh|Host key|remote: (?:fatal|error)|.*Permission denied)/i.test(line))
  return (lines.slice(0, 2).join('; ') || 'git failed without a reason').slice(0, 500)
}

const LISTED = /^(\d{6}) (\w+) ([0-9a-f]{40}|[0-9a-f]{64}) +(\d+|-)\t(.*)$/s

function readListedFile(line: string): ListedFile {
  const [, mode = '', type = '', object = '', size = '', path = ''] = LISTED.exec(line) ?? []
  const kind = mode === '120000' ? 'link' : type === 'commit' ? 'module' : type === 'blob' ? 'file' : 'other'
  return { path, kind, object, size: Number(size) || 0, isExecutable: mode === '100755' }
}
