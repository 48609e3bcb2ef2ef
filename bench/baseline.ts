// Checks out an earlier commit of this repository for one run, so that both versions are measured side by side.
import { execFileSync } from 'node:child_process'
import { existsSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BenchScope } from './bench-scope.ts'
import { MissingRequirement } from './result.ts'

const ROOT = join(import.meta.dirname, '..')

/** Functions of a version that prepare and serve an instance; each version writes its store with its own code. */
export interface Version {
  readonly root: string
  readonly openBenchInstance: typeof import('./instance.ts').openBenchInstance
  readonly addFolders: typeof import('./instance.ts').addFolders
  readonly mintChat: typeof import('./instance.ts').mintChat
  readonly mintHooks: typeof import('./instance.ts').mintHooks
  readonly call: typeof import('../src/registry/call.ts').callVerb
  readonly groupsResource: typeof import('../src/resources/groups.ts').groupsResource
}

/** Loads this checkout and `commit`, whose worktree is removed with the scope. */
export async function openVersions(
  scope: BenchScope,
  commit: string,
): Promise<Readonly<Record<'now' | 'before', Version>>> {
  const now = await loadVersion(ROOT)
  return { now, before: await loadVersion(addWorktree(scope, commit)) }
}

function addWorktree(scope: BenchScope, commit: string): string {
  if (!existsSync(join(ROOT, '.git')))
    throw new MissingRequirement('needs a git checkout: an installed package has no history')
  if (!hasCommit(commit))
    throw new MissingRequirement(`needs commit ${commit}: fetch the whole history (git fetch --unshallow)`)
  const path = join(scope.root, commit)
  const modules = join(path, 'node_modules')
  const remove = (): void => {
    process.off('exit', remove)
    // Remove the link first, so that deleting the tree cannot follow it.
    rmSync(modules, { force: true })
    git('worktree', 'remove', '--force', path)
  }
  scope.defer(remove)
  // An interrupted run must not leave a worktree in the repository.
  process.on('exit', remove)
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  git('worktree', 'add', '--detach', '--quiet', path, commit)
  // A symbolic link, because the temporary folder may be on another file system.
  symlinkSync(join(ROOT, 'node_modules'), modules)
  return path
}

function hasCommit(commit: string): boolean {
  try {
    git('cat-file', '-e', `${commit}^{commit}`)
    return true
  } catch {
    return false
  }
}

function git(...args: string[]): void {
  execFileSync('git', ['-C', ROOT, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
}

async function loadVersion(root: string): Promise<Version> {
  const load = (path: string): Promise<Record<string, unknown>> => import(pathToFileURL(join(root, path)).href)
  const [instance, call, groups] = await Promise.all([
    load('bench/instance.ts'),
    load('src/registry/call.ts'),
    load('src/resources/groups.ts'),
  ])
  // The compiler cannot see modules of another commit. The functions have the same signatures in both; `callVerb` was
  // called `call` before.
  return { root, ...instance, ...groups, call: call.callVerb ?? call.call } as Version
}
