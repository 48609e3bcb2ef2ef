// Finds faults of a model configuration without calling the model.
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { CellPaths } from '../../cell/cell-paths.ts'
import { isExecutable } from '../../cell/executable.ts'
import { readEnvironment } from '../../lib/environment.ts'
import { RUNTIME_NAMES } from '../../runtimes/settings.ts'
import { isRuntime, type ModelConfig } from './model-config.ts'

/** `home` is the workspace in which programs run. */
export function findModelFaults(config: ModelConfig, home: string): string[] {
  const { runtime } = config
  if (!isRuntime(runtime)) return [`unknown runtime ${JSON.stringify(runtime)}; known: ${RUNTIME_NAMES.join(', ')}`]
  switch (runtime) {
    case 'openai':
      return findOpenaiFaults(config)
    case 'claude':
      return findClaudeFaults(config, home)
    case 'command':
      return findCommandFaults(config, home)
    default:
      return []
  }
}

function findOpenaiFaults({ endpoint = '', model, key }: ModelConfig): string[] {
  if (!isHttpUrl(endpoint)) return ['OPENAI_BASE_URL is not an HTTP URL']
  const faults = []
  if (!model) faults.push('no model is set')
  if (!key && !isLoopback(endpoint)) faults.push(`no key is set for ${endpoint}`)
  return faults
}

function findClaudeFaults({ program = '', endpoint = '', key, settings }: ModelConfig, home: string): string[] {
  const faults = []
  const path = findProgram(program)
  if (path === undefined) faults.push(`the program ${program} is not installed`)
  else faults.push(...findVisibilityFaults(path, settings))
  if (!isHttpUrl(endpoint)) faults.push('ANTHROPIC_BASE_URL is not an HTTP URL')
  // A client that is signed in keeps its credentials in its home directory.
  if (!key && !existsSync(join(home, '.claude/.credentials.json'))) faults.push('no key is set for Claude Code')
  return faults
}

function findCommandFaults({ command }: ModelConfig, home: string): string[] {
  const program = parseProgram(command)
  if (program === undefined) return ['no program is set']
  if (program === '' || findProgram(program, home) !== undefined) return []
  return [`the program ${program} does not exist or cannot be executed`]
}

/** For example, programs in the home directory of a user are not visible in cells. */
function findVisibilityFaults(path: string, { SANDBOX, SANDBOX_PATHS }: ModelConfig['settings']): string[] {
  const paths = new CellPaths(SANDBOX_PATHS)
  const real = realpathSync(path)
  // The programs of an image cannot be seen from here.
  if (SANDBOX !== 'bwrap' || [path, real].every((each) => paths.isVisible(each))) return []
  const folders = [...new Set([path, real].filter((each) => !paths.isVisible(each)).map((each) => dirname(each)))]
  return [
    `the program ${path} is not visible in cells: set SANDBOX_PATHS=${[...SANDBOX_PATHS, ...folders].join(':')} in .env`,
  ]
}

const SHELL_WORDS = new Set(
  '. : [ alias break case cd command continue echo eval exec exit export false for if printf read readonly return set shift source test time times trap true type ulimit umask unset until wait while'.split(
    ' ',
  ),
)

/** The program that a command starts; empty if only a shell can tell, undefined if there is no command. */
function parseProgram(command: unknown): string | undefined {
  if (Array.isArray(command)) return typeof command[0] === 'string' ? command[0] : undefined
  if (typeof command !== 'string' || command.trim() === '') return undefined
  const [first = ''] = command.trim().split(/[\s;|&<>()]/, 1)
  return /^[A-Za-z0-9._/+-]+$/.test(first) && !SHELL_WORDS.has(first) ? first : ''
}

export function findProgram(name: string, home = '/'): string | undefined {
  if (name.includes('/')) {
    const path = name.startsWith('/') ? name : join(home, name.replace(/^\/home\/node\//, ''))
    return isExecutable(path) ? path : undefined
  }
  const folders = (readEnvironment('PATH') ?? '/usr/bin:/bin').split(':').filter(Boolean)
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

export function isHttpUrl(url: string): boolean {
  return /^https?:\/\//i.test(url) && URL.canParse(url)
}

export function isLoopback(url: string): boolean {
  return URL.canParse(url) && /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(url).hostname)
}
