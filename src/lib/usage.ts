// The usage line is the declaration of a command: its parser, its help, its completion and the types of its arguments are
// read from it. `<x>` must be given, `[<x>]` may be, `[<x>…]` takes the rest, `--flag|-f <v>` takes a value, and what
// stands behind `--` is typed behind it.

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
  ? H extends '--'
    ? Read<T>
    : H extends `[--${infer F}]`
      ? { readonly [K in Key<F>]: boolean } & Read<T>
      : H extends `[--${infer F}`
        ? { readonly [K in Key<F>]?: string } & Read<Rest<T>>
        : H extends `--${infer F}`
          ? { readonly [K in Key<F>]: string } & Read<Rest<T>>
          : H extends `[<${infer P}>…]` | `<${infer P}>…`
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
  | {
      readonly kind: 'value'
      readonly name: string
      readonly optional: boolean
      readonly many: boolean
      /** It is typed behind `--`. */
      readonly behind: boolean
    }

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
  /(?<end>--(?= ))|(?<flag>\[?--(?<long>[a-z-]+)(?:\|-(?<short>[a-z]))?(?<takes> <[^>]+>)?\]?)|(?<value>\[?<(?<name>[^>]+)>(?<many>…)?\]?)|(?<word>[a-z-]+)/g

export function shapeOf(usage: string): Shape {
  const places: Place[] = []
  const flags: Flag[] = []
  let behind = false
  for (const { groups = {} } of usage.matchAll(TOKEN)) {
    const { end, flag, long, short, takes, value, name, many, word } = groups
    if (end !== undefined) behind = true
    else if (flag !== undefined && long !== undefined) {
      const key = long.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
      flags.push({ name: long, key, short, takesValue: takes !== undefined, required: !flag.startsWith('[') })
    } else if (value !== undefined && name !== undefined) {
      places.push({ kind: 'value', name, optional: value.startsWith('['), many: many !== undefined, behind })
    } else if (word !== undefined) places.push({ kind: 'word', text: word })
  }
  return { places: places.slice(1), flags }
}
