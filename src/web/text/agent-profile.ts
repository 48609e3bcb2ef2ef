// An agent as pages show it.

export interface AgentProfile {
  readonly name: string
  /** URL of its picture, relative to the link. */
  readonly picture?: string | undefined
  /** Background of its initials, `#rrggbb`. */
  readonly tint: string
  /** Colour of the whole chat, if the agent has one. */
  readonly colour?: string | undefined
  readonly greeting?: string | undefined
  /** Messages that a visitor can start with. */
  readonly starters?: readonly string[] | undefined
}

/** White text is readable on each. */
const TINTS = ['#4f5bd5', '#0f766e', '#b45309', '#be185d', '#6d28d9', '#0369a1', '#4d7c0f', '#b91c1c']

/** The same for a folder at any time. */
export function tintOf(folder: string): string {
  let sum = 0
  for (const character of folder) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 65_521
  return TINTS[sum % TINTS.length] ?? ''
}

/** The first letters of the first and the last word. */
export function initialsOf(name: string): string {
  const words = name.split(/[\s._/-]+/).filter(Boolean)
  const first = words.length > 1 ? [words[0], words.at(-1)] : [words[0]]
  return first.map((word = '?') => [...word][0]?.toUpperCase() ?? '').join('')
}

/** Black or white, whichever is readable on a colour whose parts are 0 to 255. */
export function readableOn(parts: readonly number[]): '#000' | '#fff' {
  const [red = 0, green = 0, blue = 0] = parts.map((part) => (part / 255) ** 2.2)
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? '#000' : '#fff'
}

/** The parts of `#rrggbb`. */
export function partsOfColour(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16))
}
