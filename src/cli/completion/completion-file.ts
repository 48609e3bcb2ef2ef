// Where each shell looks for the completions of a user, and whether it finds them there without a change to its settings.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import type { Shell } from '../../lib/command-line/completion.ts'
import { readText } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'

export interface CompletionFile {
  readonly path: string
  /** Lines that tell the user what to add to which file, if the shell does not find it by itself. Asked after writing. */
  instructions(): Promise<readonly string[]>
}

export function completionFile(shell: Shell, name: string, environment: SettingSource): CompletionFile {
  const [data, config] = [directoryOf(environment, 'XDG_DATA_HOME'), directoryOf(environment, 'XDG_CONFIG_HOME')]
  if (shell === 'fish')
    return { path: join(config, 'fish', 'completions', `${name}.fish`), instructions: async () => [] }
  if (shell === 'zsh') {
    const directory = join(data, 'zsh', 'site-functions')
    return {
      path: join(directory, `_${name}`),
      instructions: async () => ((await zshFinds(name, environment)) ? [] : zshInstructions(directory)),
    }
  }
  const [own = ''] = (environment.get('BASH_COMPLETION_USER_DIR') ?? '').split(':')
  const path = join(isAbsolute(own) ? own : join(data, 'bash-completion'), 'completions', name)
  return {
    path,
    instructions: async () => ((await bashFinds(path, environment)) ? [] : bashInstructions(path)),
  }
}

const DEFAULTS = { XDG_DATA_HOME: '.local/share', XDG_CONFIG_HOME: '.config' } as const

function directoryOf(environment: SettingSource, variable: keyof typeof DEFAULTS): string {
  const given = environment.get(variable) ?? ''
  // The XDG specification says to ignore relative paths.
  if (isAbsolute(given)) return given
  const home = environment.get('HOME') ?? ''
  if (!isAbsolute(home)) refuse('invalid', 'cannot find your home directory: HOME is not set', 'set HOME')
  return join(home, DEFAULTS[variable])
}

/** The package bash-completion loads completions of users on first use: Linux, Homebrew on either processor, MacPorts. */
const BASH_COMPLETION = [
  '/usr/share/bash-completion/bash_completion',
  '/etc/bash_completion',
  '/usr/local/etc/profile.d/bash_completion.sh',
  '/opt/homebrew/etc/profile.d/bash_completion.sh',
  '/opt/local/etc/profile.d/bash_completion.sh',
]

/** By bash-completion, or by the line that was printed before. */
async function bashFinds(path: string, environment: SettingSource): Promise<boolean> {
  if (BASH_COMPLETION.some((file) => existsSync(file))) return true
  const settings = await readText(join(environment.get('HOME') ?? '', '.bashrc'), SETTINGS_MAX).catch(() => '')
  return settings.split('\n').some((line) => line.trim() === sourceLine(path))
}

const SETTINGS_MAX = 1_048_576
const sourceLine = (path: string): string => `source ${quoted(path)}`

const bashInstructions = (path: string): string[] => [
  'bash-completion is not installed, which would find this file; add to ~/.bashrc:',
  `  ${sourceLine(path)}`,
]

const zshInstructions = (directory: string): string[] => [
  'zsh does not look there yet; add to ~/.zshrc, before any other line with compinit:',
  `  fpath=(${quoted(directory)} $fpath)`,
  '  autoload -Uz compinit && compinit',
]

const quoted = (path: string): string => (/^[\w./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`)

/** The settings of the user may wait for input or for a network. */
const ZSH_TIMEOUT_MS = 5000
const ZSH_VARIABLES = ['HOME', 'PATH', 'ZDOTDIR', 'XDG_DATA_HOME', 'XDG_CONFIG_HOME', 'TERM', 'USER'] as const

/** Asks an interactive zsh, since fpath is set in files of the user. */
async function zshFinds(name: string, environment: SettingSource): Promise<boolean> {
  const env = Object.fromEntries(
    ZSH_VARIABLES.flatMap((key) => [[key, environment.get(key)]]).filter(([, value]) => value),
  )
  const asked = promisify(execFile)('zsh', ['-i', '-c', `print -r -- "found=\${_comps[${name}]-}"`], {
    env,
    timeout: ZSH_TIMEOUT_MS,
    killSignal: 'SIGKILL',
  })
  asked.child.stdin?.end()
  try {
    return (await asked).stdout.split('\n').includes(`found=_${name}`)
  } catch {
    return false
  }
}
