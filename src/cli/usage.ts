// The usage line is the declaration of a command: its parser, its help, its completion and the types of its arguments are
// read from it. `<x>` must be given, `[<x>]` may be, `[<x>…]` takes the rest, `--flag|-f <v>` takes a value.
import { nearest } from '../lib/nearest.ts'

/** What `run` is given for a usage line: `'gate <instance> rm <spec>'` gives `{ instance: string; spec: string }`. */
export type Args<U extends string> = string extends U ? Given : Read<Words<U>>

export type Given = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

type Words<U extends string> = U extends `${infer W} ${infer R}` ? [W, ...Words<R>] : [U]
type Camel<S extends string> = S extends `${infer A}-${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S
type Key<F extends string> = Camel<F extends `${infer Long}|-${string}` ? Long : F>

type Read<W extends readonly string[]> = W extends readonly [
  infer H extends string,
  ...infer T extends readonly string[],
]
  ? H extends `[--${infer F}]`
    ? { readonly [K in Key<F>]: boolean } & Read<T>
    : H extends `[--${infer F}`
      ? { readonly [K in Key<F>]?: string } & Read<Rest<T>>
      : H extends `--${infer F}`
        ? { readonly [K in Key<F>]: string } & Read<Rest<T>>
        : H extends `[<${infer P}>…]`
          ? { readonly [K in P]: readonly string[] } & Read<T>
          : H extends `[<${infer P}>]`
            ? { readonly [K in P]?: string } & Read<T>
            : H extends `<${infer P}>`
              ? { readonly [K in P]: string } & Read<T>
              : Read<T>
  : unknown

/** Without the placeholder that follows a flag. */
type Rest<T extends readonly string[]> = T extends readonly [string, ...infer R extends readonly string[]] ? R : []

/** A usage line with what help says beside it. */
export interface Described {
  readonly usage: string
  readonly about: string
  readonly example: string
}

/** One place of the line that is no flag: a word as it must be typed, or something to fill in. */
export type Place =
  | { readonly kind: 'word'; readonly text: string }
  | { readonly kind: 'value'; readonly name: string; readonly optional: boolean; readonly many: boolean }

export interface Flag {
  readonly name: string
  /** The name in `run`'s arguments: `--max-uses` is `maxUses`. */
  readonly key: string
  readonly short: string | undefined
  readonly takesValue: boolean
  readonly required: boolean
}

export interface Shape {
  /** Without the first word, which the caller has already used to find the line. */
  readonly places: readonly Place[]
  readonly flags: readonly Flag[]
}

const TOKEN =
  /(?<flag>\[?--(?<long>[a-z-]+)(?:\|-(?<short>[a-z]))?(?<takes> <[^>]+>)?\]?)|(?<value>\[?<(?<name>[^>]+)>(?<many>…)?\]?)|(?<word>[a-z-]+)/g

export function shapeOf(usage: string): Shape {
  const places: Place[] = []
  const flags: Flag[] = []
  for (const { groups = {} } of usage.matchAll(TOKEN)) {
    const { flag, long, short, takes, value, name, many, word } = groups
    if (flag !== undefined && long !== undefined) {
      const key = long.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
      flags.push({ name: long, key, short, takesValue: takes !== undefined, required: !flag.startsWith('[') })
    } else if (value !== undefined && name !== undefined) {
      places.push({ kind: 'value', name, optional: value.startsWith('['), many: many !== undefined })
    } else if (word !== undefined) places.push({ kind: 'word', text: word })
  }
  return { places: places.slice(1), flags }
}

export type Reading<C extends Described> =
  | { readonly kind: 'run'; readonly command: C; readonly args: Given }
  /** `--help` was among them. */
  | { readonly kind: 'help'; readonly about: readonly C[] }
  | { readonly kind: 'wrong'; readonly fault: string; readonly hint?: string; readonly about: readonly C[] }

interface Scan {
  readonly words: readonly string[]
  /** By the flag's long name. */
  readonly flags: ReadonlyMap<string, string | true>
  readonly help: boolean
  readonly fault?: { readonly text: string; readonly hint?: string }
}

/** Reads what follows the first word. `commands` are the lines that begin with it. */
export function readArguments<C extends Described>(commands: readonly C[], argv: readonly string[]): Reading<C> {
  const shapes = new Map(commands.map((command) => [command, shapeOf(command.usage)]))
  const scan = scanArguments([...shapes.values()].flatMap(({ flags }) => flags), argv)
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
  let help = false
  let fault: Scan['fault']
  for (let at = 0; at < argv.length; at++) {
    const token = argv[at] ?? ''
    if (token === '--') {
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
  return { words, flags, help, ...(fault ? { fault } : {}) }
}

/** Names the flag and never what came with it, which may be a secret. */
function unknownFlag(said: string, known: readonly Flag[]): NonNullable<Scan['fault']> {
  const meant = nearest(said.replace(/^-+/, ''), ['help', ...known.map(({ name }) => name)])
  const guess = meant === undefined ? '' : `; did you mean --${meant}?`
  return { text: `unknown flag ${shown(said)}${guess}`, hint: 'an argument that starts with "-" goes behind --' }
}

function shown(text: string): string {
  const short = text.length > 40 ? `${text.slice(0, 40)}…` : text
  return JSON.stringify(short).slice(1, -1)
}

interface Choice<C> {
  readonly among: readonly C[]
  readonly fault?: string
}

/** The one line whose words stand where they were typed; where there is none, the lines that came nearest. */
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
    if (word === undefined) {
      // Lines that ask for less first: `token` alone lacks its instance before it lacks its action.
      const missing = at > words.length ? placeName(shapes.get(among[0] as C)?.places[words.length]) : known.join(', ')
      return { among, fault: at > words.length ? `${missing} is missing` : `one of ${missing} is missing` }
    }
    const fitting = among.filter((command) => wordAt(command, at) === word)
    if (fitting.length === 0) {
      const meant = nearest(word, known)
      return { among, fault: `${shown(word)} is not known here${meant === undefined ? '' : `; did you mean ${meant}?`}` }
    }
    among = fitting
  }
  return { among }
}

function placeName(place: Place | undefined): string {
  return place?.kind === 'value' ? `<${place.name}>` : (place?.text ?? '')
}

function fill({ places, flags }: Shape, scan: Scan): { args: Given; fault?: string } {
  const args: Record<string, string | boolean | readonly string[] | undefined> = {}
  for (const [at, place] of places.entries()) {
    if (place.kind === 'word') continue
    const word = scan.words[at]
    if (place.many) args[place.name] = scan.words.slice(at)
    else if (word !== undefined) args[place.name] = word
    else if (!place.optional) return { args, fault: `<${place.name}> is missing` }
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
