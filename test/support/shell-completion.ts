// Asks a real shell for completions.
import { execFileSync } from 'node:child_process'
import { SHELLS, type Shell } from '../../src/lib/command-line/completion.ts'

export { SHELLS, type Shell }

export interface CompletionOptions {
  /** The completion script of this shell. */
  readonly script: string
  /** Only for bash and zsh. */
  readonly fn: string
  readonly env?: Readonly<Record<string, string>>
}

/** Returns the words, sorted and separated by blanks. */
export function completeInShell(shell: Shell, line: string, { script, fn, env = {} }: CompletionOptions): string {
  const args = ARGUMENTS[shell](line, script, fn)
  const said = execFileSync(shell, args, { encoding: 'utf8', env: { PATH: process.env.PATH, ...env } })
  const words = said.split('\n').map((word) => word.split('\t')[0])
  return words.filter(Boolean).sort().join(' ')
}

const quoted = (line: string): string[] => line.split(' ').map((word) => `'${word}'`)

const ARGUMENTS: Record<Shell, (line: string, script: string, fn: string) => string[]> = {
  bash: (line, script, fn) => {
    const words = quoted(line)
    const ask = `source ${script}; COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; ${fn}; printf '%s\\n' "\${COMPREPLY[@]}"`
    return ['--norc', '-c', ask]
  },
  zsh: (line, script, fn) => {
    const words = quoted(line)
    const ask = `compdef() { : }; compadd() { shift; for w in "$@"; do [[ $w == ${words.at(-1)}* ]] && print -- $w; done }
        source ${script}; words=(${words.join(' ')}); CURRENT=${words.length}; ${fn}; true`
    return ['-f', '-c', ask]
  },
  fish: (line, script) => ['--no-config', '-c', `source ${script}; complete -C '${line}'`],
}
