// Packages for tests, and listings of directories that show every change.
import { execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type CleanupScope, tempDir } from './temp.ts'

/** Contents by path. */
export type FileTexts = Readonly<Record<string, string>>

export const MANIFEST = `name = "gate"
about = "A gateway for tests."

[[settings]]
key = "GATE_KEY"
required = true
hint = "The key of the gateway"

[[proxyd_routes]]
path = "/gate/"
backend = "http://gate:4000"
auth = "operator"

[[acl]]
principal = "folder:main"
action = "mcp:send"
scope = "team/**"
`

export const FRAGMENT = `services:
  gate:
    image: example/gate:1.2
    volumes: [./config.yaml:/etc/config.yaml:ro]
x-svc: { hosts: [api.example.com], settings: [GATE_KEY] }
`

/** A package with every kind of part. */
export const PACKAGE: FileTexts = {
  'package.toml': MANIFEST,
  'services.yml': FRAGMENT,
  'files/config.yaml': 'a: 1\n',
  'skills/summary/SKILL.md': '# Summary\n',
  'skills/summary/more/example.md': 'An example.\n',
  'README.md': 'Not installed.\n',
  '.gitignore': 'tmp\n',
}

export function writeFiles(dir: string, files: FileTexts): string {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
  return dir
}

export function packageDir(t: CleanupScope, files: FileTexts = PACKAGE): string {
  return writeFiles(tempDir(t), files)
}

/** Kind, mode and content of every entry below a directory. */
export function listTree(root: string, isIncluded: (path: string) => boolean = () => true): Record<string, string> {
  const found: Record<string, string> = {}
  const visit = (below: string): void => {
    for (const name of readdirSync(join(root, below)).sort()) {
      const path = join(below, name)
      if (!isIncluded(path)) continue
      const stats = lstatSync(join(root, path))
      const mode = (stats.mode & 0o777).toString(8)
      if (stats.isDirectory()) found[path] = `directory ${mode}`
      else if (stats.isSymbolicLink()) found[path] = `link ${readlinkSync(join(root, path))}`
      else if (stats.isFile())
        found[path] = `file ${mode} ${hash('sha256', readFileSync(join(root, path)), 'hex').slice(0, 16)}`
      else found[path] = 'other'
      if (stats.isDirectory()) visit(path)
    }
  }
  visit('')
  return found
}

/** Runs git with the identity and the settings of a test. */
export function git(cwd: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com', '-c', 'init.defaultBranch=main']
  return execFileSync('git', [...identity, ...args], {
    cwd,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: cwd, GIT_CONFIG_NOSYSTEM: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim()
}

export interface TestRepository {
  /** The work tree. */
  readonly dir: string
  /** file:// URL of the bare repository. */
  readonly url: string
  /** Commits everything in the work tree, publishes it and returns the commit. */
  publish(): string
}

export function packageRepository(t: CleanupScope, files: FileTexts = PACKAGE): TestRepository {
  const [bare, dir] = [tempDir(t), packageDir(t, files)]
  git(bare, 'init', '--quiet', '--bare')
  git(dir, 'init', '--quiet')
  git(dir, 'remote', 'add', 'origin', bare)
  const publish = (): string => {
    git(dir, 'add', '--all', '--force')
    git(dir, 'commit', '--quiet', '--allow-empty', '-m', 'A package')
    git(dir, 'push', '--quiet', '--force', 'origin', 'HEAD:main')
    return git(dir, 'rev-parse', 'HEAD')
  }
  return { dir, url: `file://${bare}`, publish }
}

/** A hook that leaves a file if it ever runs. */
export function writeHook(repository: string, name: string, witness: string): void {
  const path = join(repository, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `#!/bin/sh\ntouch ${witness}\n`)
  chmodSync(path, 0o755)
}
