// Reads what was typed against the usage lines. Answers with what to run, what to explain, or what is wrong.
import { nearest } from './nearest.ts'
import { type Described, type Flag, type Given, type Place, type Shape, shapeOf } from './usage.ts'

export type Reading<C extends Described> =
  | { readonly kind: 'run'; readonly command: C; readonly args: Given }
  /** `--help` was among them. */
  | { readonly kind: 'help'; readonly about: readonly C[] }
  | { readonly kind: 'wrong'; readonly fault: string; readonly hint?: string; readonly about: readonly C[] }

interface Scan {
  readonly words: readonly string[]
  /** How many of the words stand before `--`. */
  readonly before: number
  /** By the flag's long name. */
  readonly flags: ReadonlyMap<string, string | true>
  readonly help: boolean
  readonly fault?: { readonly text: string; readonly hint?: string }
}

/** Reads what follows the first word. `commands` are the lines that begin with it. */
export function readArguments<C extends Described>(commands: readonly C[], argv: readonly string[]): Reading<C> {
  const shapes = new Map(commands.map((command) => [command, shapeOf(command.usage)]))
  const scan = scanArguments(
    [...shapes.values()].flatMap(({ flags }) => flags),
    argv,
  )
  const chosen = choose(shapes, scan.words)
  if (scan.help) return { kind: 'help', about: chosen.among }
  const wrong = (text: string, hint?: string): Reading<C> => ({
    kind: 'wrong',
    fault: text,
    about: chosen.among,
    ...(hint === undefined ? {} : { hint }),
  })
  if (scan.fault) return wrong(scan.fault.text, scan.fault.hint)
  if (chosen.fault !== undefined) return wrong(chosen.fault)
  const [command] = chosen.among
  const shape = command && shapes.get(command)
  if (!command || !shape) return wrong('nothing fits')
  const { args, fault } = fill(shape, scan)
  return fault === undefined ? { kind: 'run', command, args } : wrong(fault)
}

/** Apart into words and flags. A flag may stand anywhere; `--` ends them; one that takes a value takes whatever is next. */
function scanArguments(known: readonly Flag[], argv: readonly string[]): Scan {
  const words: string[] = []
  const flags = new Map<string, string | true>()
  let before: number | undefined
  let help = false
  let fault: Scan['fault']
  for (let at = 0; at < argv.length; at++) {
    const token = argv[at] ?? ''
    if (token === '--') {
      before = words.length
      words.push(...argv.slice(at + 1))
      break
    }
    // A lone dash is stdin, and a dash before a digit is a negative number: whoever reads it says what is wrong with it.
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
    const value = flag.takesValue ? (equals ?? argv[++at]) : true
    if (value === undefined) fault ??= { text: `--${flag.name} needs a value` }
    else if (!flag.takesValue && equals !== undefined) fault ??= { text: `--${flag.name} takes no value` }
    else if (flags.has(flag.name)) fault ??= { text: `--${flag.name} is given twice` }
    else flags.set(flag.name, value)
  }
  return { words, before: before ?? words.length, flags, help, ...(fault ? { fault } : {}) }
}

/** Names the flag and never what came with it, which may be a secret. */
function unknownFlag(said: string, known: readonly Flag[]): NonNullable<Scan['fault']> {
  const meant = nearest(said.replace(/^-+/, ''), ['help', ...known.map(({ name }) => name)])
  const guess = meant === undefined ? '' : `; did you mean --${meant}?`
  // Behind one dash only a letter is a name: what follows it may be a value that was typed without a blank.
  const name = said.startsWith('--') || said.length <= 2 ? said : `${[...said].slice(0, 2).join('')}…`
  return { text: `unknown flag ${shown(name)}${guess}`, hint: 'an argument that starts with "-" goes behind --' }
}

function shown(text: string): string {
  const short = text.length > 40 ? `${text.slice(0, 40)}…` : text
  return JSON.stringify(short).slice(1, -1)
}

interface Choice<C> {
  readonly among: readonly C[]
  readonly fault?: string
}

/**
 * The one line whose words stand where they were typed, else one that takes anything there; where there is none, the lines
 * that came nearest.
 */
function choose<C>(shapes: ReadonlyMap<C, Shape>, words: readonly string[]): Choice<C> {
  let among = [...shapes.keys()]
  const wordAt = (command: C, at: number): string | undefined => {
    const place = shapes.get(command)?.places[at]
    return place?.kind === 'word' ? place.text : undefined
  }
  const longest = Math.max(...[...shapes.values()].map(({ places }) => places.length))
  for (let at = 0; at < longest; at++) {
    const known = [...new Set(among.flatMap((command) => wordAt(command, at) ?? []))]
    if (known.length === 0) continue
    const word = words[at]
    const others = among.filter((command) => wordAt(command, at) === undefined)
    const ending = others.filter((command) => isOptional(shapes.get(command)?.places[at]))
    if (word === undefined && ending.length > 0) return { among: ending }
    if (word === undefined) {
      // `token` alone lacks its instance before it lacks its action.
      const before = [...shapes.values()][0]?.places[words.length]
      const lacking = known.length > 1 ? `one of ${known.join(', ')}` : known.join()
      return { among, fault: before?.kind === 'value' ? missing(before) : `${lacking} is missing` }
    }
    const fitting = among.filter((command) => wordAt(command, at) === word)
    if (fitting.length === 0 && others.length > 0) {
      among = others
      continue
    }
    if (fitting.length === 0) {
      const meant = nearest(word, known)
      return {
        among,
        fault: `unknown subcommand "${shown(word)}"${meant === undefined ? '' : `; did you mean ${meant}?`}`,
      }
    }
    among = fitting
  }
  return { among }
}

function isOptional(place: Place | undefined): boolean {
  return place === undefined || (place.kind === 'value' && place.optional)
}

function missing({ name, behind }: Extract<Place, { kind: 'value' }>): string {
  return `<${name}> is missing${behind ? ' behind --' : ''}`
}

function fill({ places, flags }: Shape, scan: Scan): { args: Given; fault?: string } {
  const args: Record<string, string | boolean | readonly string[] | undefined> = {}
  for (const [at, place] of places.entries()) {
    if (place.kind === 'word') continue
    const word = scan.words[at]
    // A word too many before it is a slip, such as a list with blanks, and must not become part of it.
    if (place.behind && scan.before > at)
      return { args, fault: `too many words before --: <${place.name}> goes behind it` }
    if (place.many && word === undefined && !place.optional) return { args, fault: missing(place) }
    if (place.many) args[place.name] = scan.words.slice(at)
    else if (word !== undefined) args[place.name] = word
    else if (!place.optional) return { args, fault: missing(place) }
  }
  // Not repeated: a secret typed without its flag stands among them.
  if (scan.words.length > places.length && !places.some((place) => place.kind === 'value' && place.many))
    return { args, fault: 'too many arguments' }
  for (const { name, key, takesValue, required } of flags) {
    const value = scan.flags.get(name)
    if (value === undefined && required) return { args, fault: `--${name} is missing` }
    if (takesValue) {
      if (value !== undefined) args[key] = value
    } else args[key] = value === true
  }
  const other = [...scan.flags.keys()].find((name) => !flags.some((flag) => flag.name === name))
  return other === undefined ? { args } : { args, fault: `--${other} is not for this command` }
}
