// Completions for three shells over one table: a key is the words typed so far, without the instance and without flags.
import { type Described, shapeOf } from './usage.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

export function isShell(text: string): text is Shell {
  return SHELLS.some((shell) => shell === text)
}

/** Whose commands are completed. */
export interface Completed {
  readonly name: string
  readonly commands: readonly Described[]
  /** How each kind of shell finds the instances, where commands name one: the body of a function that prints them. */
  readonly instances?: { readonly posix: string; readonly fish: string }
}

interface Choices {
  /** `token issue` to `chat webhook`; the empty key to every command. */
  readonly words: ReadonlyMap<string, readonly string[]>
  readonly flags: ReadonlyMap<string, readonly string[]>
  /** Commands whose second word is an instance. */
  readonly instanced: readonly string[]
  /** Flags that take the word after them. */
  readonly valued: readonly string[]
}

export function choicesOf(commands: readonly Described[]): Choices {
  const words = new Map<string, Set<string>>()
  const flags = new Map<string, Set<string>>()
  const instanced = new Set<string>()
  const valued = new Set<string>()
  const put = (to: Map<string, Set<string>>, key: string, text: string): void => {
    to.set(key, (to.get(key) ?? new Set<string>()).add(text))
  }
  for (const { usage } of commands) {
    const [noun = ''] = usage.split(' ')
    const shape = shapeOf(usage)
    put(words, '', noun)
    let key = noun
    for (const place of shape.places) {
      if (place.kind === 'value') {
        if (place.name === 'instance') instanced.add(noun)
        continue
      }
      put(words, key, place.text)
      key += ` ${place.text}`
    }
    for (const { name, short, takesValue } of shape.flags) {
      put(flags, key, `--${name}`)
      if (takesValue) for (const text of short ? [`--${name}`, `-${short}`] : [`--${name}`]) valued.add(text)
    }
  }
  // What completes `help` and `completion` stands in no usage line.
  for (const noun of words.get('') ?? []) put(words, 'help', noun)
  for (const shell of SHELLS) put(words, 'completion', shell)
  const plain = (map: Map<string, Set<string>>) => new Map([...map].map(([key, set]) => [key, [...set]]))
  return { words: plain(words), flags: plain(flags), instanced: [...instanced], valued: [...valued] }
}

export function completionScript(shell: Shell, completed: Completed): string {
  return shell === 'fish' ? fishScript(completed) : posixScript(shell, completed)
}

/** What the script's functions are called; a dash is no part of a name everywhere. */
function functionOf({ name }: Completed): string {
  return `_${name.replaceAll('-', '_')}`
}

/** The arms of a `case` over keys. */
function arms(map: ReadonlyMap<string, readonly string[]>): string {
  return [...map].map(([key, list]) => `      '${key}') found=(${list.join(' ')}) ;;`).join('\n')
}

/** A variable as the shell expands it, in quotes. */
const value = (name: string): string => `"\${${name}}"`

/** How the two number the words and take the answers. */
const POSIX = {
  bash: {
    first: 'i = 1; i < COMP_CWORD',
    word: value('COMP_WORDS[i]'),
    current: value('COMP_WORDS[COMP_CWORD]'),
    give: `COMPREPLY=($(compgen -W ${value('found[*]')} -- "$cur"))`,
    bind: 'complete -F',
  },
  zsh: {
    first: 'i = 2; i < CURRENT',
    word: value('words[i]'),
    current: value('words[CURRENT]'),
    give: `compadd -- ${value('found[@]')}`,
    bind: 'compdef',
  },
} as const

function posixScript(shell: 'bash' | 'zsh', completed: Completed): string {
  const { words, flags, instanced, valued } = choicesOf(completed.commands)
  const { first, word, current, give, bind } = POSIX[shell]
  const [{ name, instances }, fn] = [completed, functionOf(completed)]
  return `${shell === 'zsh' ? `#compdef ${name}\n` : ''}# made by: ${name} completion ${shell}
${fn}_instances() {
${instances?.posix ?? '  :'}
}
${fn}() {
  local cur=${current} instanced=' ${instanced.map((noun) => `${noun} `).join('')}' key='' instance='' word i
  local -a found
  found=()
  for ((${first}; i++)); do
    word=${word}
    case $word in
      ${valued.join('|')}) i=$((i + 1)) ;;
      -*) ;;
      *)
        if [[ -z $key ]]; then key=$word
        elif [[ -z $instance && $instanced == *" $key "* ]]; then instance=$word
        else key="$key $word"
        fi ;;
    esac
  done
  if [[ $cur == -* ]]; then
    # What was filled in stands behind the words of the command.
    while [[ -n $key ]]; do
      case $key in
${arms(flags)}
      esac
      [[ \${#found[@]} -eq 0 && $key == *' '* ]] || break
      key=\${key% *}
    done
    found+=(--help)
  elif [[ -z $instance && $instanced == *" $key "* ]]; then
    found=($(${fn}_instances))
  else
    case $key in
${arms(words)}
    esac
  fi
  ${give}
}
${bind} ${fn} ${name}
`
}

function fishScript(completed: Completed): string {
  const { words, flags, instanced, valued } = choicesOf(completed.commands)
  const [{ name, instances }, fn] = [completed, functionOf(completed)]
  const wordLines = [...words].map(
    ([key, list]) => `complete -c ${name} -n "test (${fn}_key) = '${key}'" -a '${list.join(' ')}'`,
  )
  const flagLines = [...flags].flatMap(([key, list]) =>
    list.map((flag) => {
      const takes = valued.includes(flag) ? ' -r' : ''
      return `complete -c ${name} -n "string match -q -- '${key}*' (${fn}_key)" -l ${flag.slice(2)}${takes}`
    }),
  )
  return `# made by: ${name} completion fish
function ${fn}_key
  set -l key
  set -l instance
  set -l skip 0
  for word in (commandline -opc)[2..]
    if test $skip = 1
      set skip 0
    else if contains -- $word ${valued.join(' ')}
      set skip 1
    else if string match -q -- '-*' $word
    else if test -z "$key"
      set key $word
    else if test -z "$instance"; and contains -- $key ${instanced.join(' ')}
      set instance $word
    else
      set key "$key $word"
    end
  end
  if test -n "$key" -a -z "$instance"; and contains -- $key ${instanced.join(' ')}
    set key "$key <instance>"
  end
  echo "$key"
end
function ${fn}_instances
${instances?.fish ?? '  true'}
end
complete -c ${name} -f
complete -c ${name} -n "string match -q -- '* <instance>' (${fn}_key)" -a '(${fn}_instances)'
complete -c ${name} -l help -d 'explain the command'
${[...wordLines, ...flagLines].join('\n')}
`
}
