// The usage line declares a command: parser, help, completion and argument types derive from it. `<x>` is required, `[<x>]`
// optional, `[<x>…]` takes the rest, `--flag|-f <v>` takes a value, `[--flag <v>…]` may be given again, and words after `--` are
// typed after it.

/** The arguments of `run` for a usage line: `'gate <instance> rm <spec>'` gives `{ instance: string; spec: string }`. */
export type Args<U extends string> = string extends U ? ArgumentValues : Read<Words<U>>

export type ArgumentValues = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

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
        ? T extends readonly [`<${string}>…]`, ...infer R extends readonly string[]]
          ? { readonly [K in Key<F>]: readonly string[] } & Read<R>
          : { readonly [K in Key<F>]?: string } & Read<Rest<T>>
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

/** Skips the placeholder of a flag. */
type Rest<T extends readonly string[]> = T extends readonly [string, ...infer R extends readonly string[]] ? R : []

export interface CommandDescription {
  readonly usage: string
  readonly about: string
  readonly example: string
  /** Arguments from the last placeholder `[<x>…]` on are passed to another program: their flags are not ours. */
  readonly passesFlags?: true
}

/** A positional part of the line: a literal word or a placeholder. */
export type UsagePart =
  | { readonly kind: 'word'; readonly text: string }
  | {
      readonly kind: 'value'
      readonly name: string
      readonly optional: boolean
      readonly many: boolean
      /** It comes after `--`. */
      readonly isAfterDoubleDash: boolean
    }

export interface Flag {
  readonly name: string
  /** The key in `run`'s arguments: `--max-uses` is `maxUses`. */
  readonly key: string
  readonly short: string | undefined
  readonly takesValue: boolean
  readonly isRepeatable: boolean
  readonly required: boolean
}

export interface UsageSyntax {
  /** Without the first word, by which the caller found the line. */
  readonly parts: readonly UsagePart[]
  readonly flags: readonly Flag[]
}

const TOKEN =
  /(?<end>--(?= ))|(?<flag>\[?--(?<long>[a-z-]+)(?:\|-(?<short>[a-z]))?(?<takes> <[^>]+>)?(?<again>…)?\]?)|(?<value>\[?<(?<name>[^>]+)>(?<many>…)?\]?)|(?<word>[a-z-]+)/g

export function parseUsage(usage: string): UsageSyntax {
  const parts: UsagePart[] = []
  const flags: Flag[] = []
  let behind = false
  for (const { groups = {} } of usage.matchAll(TOKEN)) {
    const { end, flag, long, short, takes, again, value, name, many, word } = groups
    if (end !== undefined) behind = true
    else if (flag !== undefined && long !== undefined) {
      const key = long.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
      const [takesValue, isRepeatable] = [takes !== undefined, again !== undefined]
      flags.push({ name: long, key, short, takesValue, isRepeatable, required: !flag.startsWith('[') })
    } else if (value !== undefined && name !== undefined) {
      parts.push({
        kind: 'value',
        name,
        optional: value.startsWith('['),
        many: many !== undefined,
        isAfterDoubleDash: behind,
      })
    } else if (word !== undefined) parts.push({ kind: 'word', text: word })
  }
  return { parts: parts.slice(1), flags }
}
