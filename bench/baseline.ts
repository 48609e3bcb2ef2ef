// An earlier commit of this repository, checked out for one run, so that both versions are measured side by side.
import { execFileSync } from 'node:child_process'
import { existsSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BenchScope } from './bench-scope.ts'
import { MissingRequirement } from './result.ts'

const ROOT = join(import.meta.dirname, '..')

/** The parts of a version that prepare and serve an instance: its store must be written by its own code. */
export interface Version {
  readonly openBenchInstance: typeof import('./instance.ts').openBenchInstance
  readonly mintChat: typeof import('./instance.ts').mintChat
  readonly call: typeof import('../src/registry/call.ts').callVerb
  readonly groupsResource: typeof import('../src/resources/groups.ts').groupsResource
}

/** This checkout and `commit`. Removes the worktree of `commit` with the stage. */
export async function openVersions(
  stage: BenchScope,
  commit: string,
): Promise<Readonly<Record<'now' | 'before', Version>>> {
  const now = await loadVersion(ROOT)
  return { now, before: await loadVersion(addWorktree(stage, commit)) }
}

function addWorktree(stage: BenchScope, commit: string): string {
  if (!existsSync(join(ROOT, '.git')))
    throw new MissingRequirement('needs a git checkout: an installed package has no history')
  if (!hasCommit(commit))
    throw new MissingRequirement(`needs commit ${commit}: fetch the whole history (git fetch --unshallow)`)
  const path = join(stage.root, commit)
  const modules = join(path, 'node_modules')
  const remove = (): void => {
    process.off('exit', remove)
    // The link goes first, so that nothing that deletes a tree can follow it.
    rmSync(modules, { force: true })
    git('worktree', 'remove', '--force', path)
  }
  stage.defer(remove)
  // An interrupted run leaves no record of a worktree in the repository.
  process.on('exit', remove)
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  git('worktree', 'add', '--detach', '--quiet', path, commit)
  // A link and not a copy: the temporary folder may be on another file system.
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
  const load = (path: string): Promise<object> => import(pathToFileURL(join(root, path)).href)
  const [instance, call, groups] = await Promise.all([
    load('bench/instance.ts'),
    load('src/registry/call.ts'),
    load('src/resources/groups.ts'),
  ])
  // The compiler cannot see modules of another commit; the functions used here have the same signatures in both.
  return { ...instance, ...call, ...groups } as Version
}
