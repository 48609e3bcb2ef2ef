// Parses arguments against the usage lines; returns the command to run, the help to print, or a usage error.
import { nearest } from '../text/nearest-word.ts'
import {
  type ArgumentValues,
  type CommandDescription,
  type Flag,
  parseUsage,
  type UsagePart,
  type UsageSyntax,
} from './usage.ts'

export type ParsedCommandLine<C extends CommandDescription> =
  | { readonly kind: 'run'; readonly command: C; readonly args: ArgumentValues }
  /** `--help` was given. */
  | { readonly kind: 'help'; readonly about: readonly C[] }
  | { readonly kind: 'wrong'; readonly fault: string; readonly hint?: string; readonly about: readonly C[] }

interface Scan {
  readonly words: readonly string[]
  /** How many of the words come before `--`. */
  readonly before: number
  /** Values by long flag name; a switch has one, too. */
  readonly flags: ReadonlyMap<string, readonly string[]>
  readonly help: boolean
  readonly fault?: { readonly text: string; readonly hint?: string }
}

/** Parses the arguments after the first word. `commands` are the commands that start with it. */
export function readArguments<C extends CommandDescription>(
  commands: readonly C[],
  argv: readonly string[],
): ParsedCommandLine<C> {
  const syntaxes = new Map(commands.map((command) => [command, parseUsage(command.usage)]))
  const scan = scanArguments(
    [...syntaxes.values()].flatMap(({ flags }) => flags),
    argv,
    firstPassedWord(syntaxes),
  )
  const chosen = choose(syntaxes, scan.words)
  if (scan.help) return { kind: 'help', about: chosen.candidates }
  const wrong = (text: string, hint?: string): ParsedCommandLine<C> => ({
    kind: 'wrong',
    fault: text,
    about: chosen.candidates,
    ...(hint === undefined ? {} : { hint }),
  })
  if (scan.fault) return wrong(scan.fault.text, scan.fault.hint)
  if (chosen.fault !== undefined) return wrong(chosen.fault)
  const [command] = chosen.candidates
  const shape = command && syntaxes.get(command)
  if (!command || !shape) return wrong('no usage line matches')
  const { args, fault } = fill(shape, scan)
  return fault === undefined ? { kind: 'run', command, args } : wrong(fault)
}

/** After this many words, arguments are passed on as they are. */
function firstPassedWord(syntaxes: ReadonlyMap<CommandDescription, UsageSyntax>): number {
  const passing = [...syntaxes].flatMap(([{ passesFlags }, { parts }]) =>
    passesFlags ? [parts.findIndex((part) => part.kind === 'value' && part.many)] : [],
  )
  return Math.min(Number.POSITIVE_INFINITY, ...passing)
}

/** Separates words and flags. Flags may appear anywhere before `--`; a flag with a value takes the next argument unchanged. */
function scanArguments(known: readonly Flag[], argv: readonly string[], passedFrom: number): Scan {
  const words: string[] = []
  const flags = new Map<string, string[]>()
  let before: number | undefined
  let help = false
  let fault: Scan['fault']
  for (let at = 0; at < argv.length; at++) {
    const token = argv[at] ?? ''
    if (words.length >= passedFrom && token !== '--') {
      words.push(...argv.slice(at))
      break
    }
    if (token === '--') {
      before = words.length
      words.push(...argv.slice(at + 1))
      break
    }
    // A lone dash means stdin, and a dash before a digit is a negative number: the command validates it.
    if (!/^-[^\d]/.test(token)) {
      words.push(token)
      continue
    }
    if (token === '--help' || token === '-h') {
      help = true
      continue
    }
    const [, dashes = '', name = '', equals] = /^(--?)([^=]*)(?:=(.*))?$/s.exec(token) ?? []
    const flag = known.find((one) => (dashes === '--' ? one.name : one.short) === name)
    if (!flag) {
      fault ??= unknownFlag(`${dashes}${name}`, known)
      continue
    }
    const value = flag.takesValue ? (equals ?? argv[++at]) : ''
    if (value === undefined) fault ??= { text: `--${flag.name} needs a value` }
    else if (!flag.takesValue && equals !== undefined) fault ??= { text: `--${flag.name} takes no value` }
    else if (flags.has(flag.name) && !flag.isRepeatable) fault ??= { text: `--${flag.name} is given twice` }
    else flags.set(flag.name, [...(flags.get(flag.name) ?? []), value])
  }
  return { words, before: before ?? words.length, flags, help, ...(fault ? { fault } : {}) }
}

/** Names the flag but never its value, which may be a secret. */
function unknownFlag(typed: string, known: readonly Flag[]): NonNullable<Scan['fault']> {
  const meant = nearest(typed.replace(/^-+/, ''), ['help', ...known.map(({ name }) => name)])
  const guess = meant === undefined ? '' : `; did you mean --${meant}?`
  // After a single dash only one letter is the name: the rest may be a value typed without a blank.
  const name = typed.startsWith('--') || typed.length <= 2 ? typed : `${[...typed].slice(0, 2).join('')}…`
  return { text: `unknown flag ${truncate(name)}${guess}`, hint: 'put an argument that starts with "-" after --' }
}

function truncate(text: string): string {
  const short = text.length > 40 ? `${text.slice(0, 40)}…` : text
  return JSON.stringify(short).slice(1, -1)
}

interface Choice<C> {
  readonly candidates: readonly C[]
  readonly fault?: string
}

/** Returns the command whose literal words match, else one with a placeholder in their position, else the closest commands. */
function choose<C>(syntaxes: ReadonlyMap<C, UsageSyntax>, words: readonly string[]): Choice<C> {
  let candidates = [...syntaxes.keys()]
  const wordAt = (command: C, at: number): string | undefined => {
    const part = syntaxes.get(command)?.parts[at]
    return part?.kind === 'word' ? part.text : undefined
  }
  const longest = Math.max(...[...syntaxes.values()].map(({ parts }) => parts.length))
  for (let at = 0; at < longest; at++) {
    const known = [...new Set(candidates.flatMap((command) => wordAt(command, at) ?? []))]
    if (known.length === 0) continue
    const word = words[at]
    const others = candidates.filter((command) => wordAt(command, at) === undefined)
    const ending = others.filter((command) => isOptional(syntaxes.get(command)?.parts[at]))
    if (word === undefined && ending.length > 0) return { candidates: ending }
    if (word === undefined) {
      // `token` alone lacks its instance before its action.
      const before = [...syntaxes.values()][0]?.parts[words.length]
      const choices = known.length > 1 ? `one of ${known.join(', ')}` : known.join()
      return { candidates, fault: before?.kind === 'value' ? missing(before) : `${choices} is missing` }
    }
    const fitting = candidates.filter((command) => wordAt(command, at) === word)
    if (fitting.length === 0 && others.length > 0) {
      candidates = others
      continue
    }
    if (fitting.length === 0) {
      const meant = nearest(word, known)
      return {
        candidates,
        fault: `unknown subcommand "${truncate(word)}"${meant === undefined ? '' : `; did you mean ${meant}?`}`,
      }
    }
    candidates = fitting
  }
  return { candidates }
}

function isOptional(part: UsagePart | undefined): boolean {
  return part === undefined || (part.kind === 'value' && part.optional)
}

function missing({ name, isAfterDoubleDash }: Extract<UsagePart, { kind: 'value' }>): string {
  return `<${name}> is missing${isAfterDoubleDash ? ' after --' : ''}`
}

function fill({ parts, flags }: UsageSyntax, scan: Scan): { args: ArgumentValues; fault?: string } {
  const args: Record<string, string | boolean | readonly string[] | undefined> = {}
  for (const [at, part] of parts.entries()) {
    if (part.kind === 'word') continue
    const word = scan.words[at]
    // An extra word before `--` is a mistake, such as a list with blanks, and must not become part of the command.
    if (part.isAfterDoubleDash && scan.before > at)
      return { args, fault: `too many words before --: <${part.name}> goes after it` }
    if (part.many && word === undefined && !part.optional) return { args, fault: missing(part) }
    if (part.many) args[part.name] = scan.words.slice(at)
    else if (word !== undefined) args[part.name] = word
    else if (!part.optional) return { args, fault: missing(part) }
  }
  // Not quoted: a secret typed without its flag may be among them.
  if (scan.words.length > parts.length && !parts.some((part) => part.kind === 'value' && part.many))
    return { args, fault: 'too many arguments' }
  for (const { name, key, takesValue, isRepeatable, required } of flags) {
    const values = scan.flags.get(name)
    if (!values && required) return { args, fault: `--${name} is missing` }
    if (isRepeatable) args[key] = values ?? []
    else if (!takesValue) args[key] = values !== undefined
    else if (values) args[key] = values[0]
  }
  const other = [...scan.flags.keys()].find((name) => !flags.some((flag) => flag.name === name))
  return other === undefined ? { args } : { args, fault: `--${other} is not for this command` }
}
