// Reads the front matter of Markdown files: YAML between two lines of `---`. Agents write such files, so the time is linear in
// their length.
import { tryParseJson } from './json.ts'
import { trimLeading, trimTrailing } from './trimming.ts'

/** `matter` starts with an empty line in place of `---`, so YAML errors have the line numbers of the file. */
export function splitFrontMatter(markdown: string): { matter?: string; body: string } {
  const [whole, matter] = /^---[ \t]*\r?\n((?:.*?\r?\n)??)---[ \t]*(?:\r?\n|$)/s.exec(markdown) ?? []
  if (whole === undefined || matter === undefined) return { body: markdown }
  return { matter: `\n${matter}`, body: markdown.slice(whole.length) }
}

export interface FrontMatterValue {
  /** Without quotes; empty if the key is missing. */
  readonly text: string
  readonly isQuoted: boolean
}

/** The value of the first line `key: value`, or the block below `key: |`. This reader accepts what YAML would refuse. */
export function frontMatterValue(markdown: string, key: string): FrontMatterValue {
  const { matter = '' } = splitFrontMatter(markdown)
  const lines = matter.split('\n')
  const at = lines.findIndex((line) => line.startsWith(`${key}:`))
  const value = readScalar((lines[at] ?? '').slice(key.length + 1))
  return /^[|>][+-]?$/.test(value.text) && !value.isQuoted
    ? { text: readBlock(lines.slice(at + 1), value.text.startsWith('>')), isQuoted: false }
    : value
}

/** Lines with the indentation of the first. `isFolded`: those of a paragraph become one line. */
function readBlock(below: readonly string[], isFolded: boolean): string {
  const lines = below.map((line) => trimTrailing(line, ' \t\r'))
  const end = lines.findIndex((line) => /^[^ ]/.test(line))
  const block = lines.slice(0, end < 0 ? undefined : end)
  const indent = /^ */.exec(block.find((line) => line !== '') ?? '')?.[0].length ?? 0
  const text = block.map((line) => line.slice(indent)).join('\n')
  const folded = isFolded ? text.replace(/(?<!\n)\n(?!\n)/g, ' ').replace(/\n\n/g, '\n') : text
  return trimTrailing(trimLeading(folded, ' \n'), ' \n')
}

/** The values of the lines `- value` that follow the first line `key:`, or the texts of a JSON array after it. */
export function frontMatterItems(markdown: string, key: string): string[] {
  const { matter = '' } = splitFrontMatter(markdown)
  const lines = matter.split('\n').map((line) => trimTrailing(line, ' \t\r'))
  const list = tryParseJson((lines.find((line) => line.startsWith(`${key}: [`)) ?? '').slice(key.length + 1))
  if (Array.isArray(list)) return list.filter((item) => typeof item === 'string')
  const below = lines.slice(lines.indexOf(`${key}:`) + 1 || lines.length)
  const end = below.findIndex((line) => !/^[ \t]*- /.test(line))
  return below.slice(0, end < 0 ? undefined : end).map((line) => readScalar(line.slice(line.indexOf('- ') + 2)).text)
}

function readScalar(value: string): FrontMatterValue {
  const text = trimLeading(trimTrailing(value, ' \t\r'), ' \t')
  const isQuoted = text.length > 1 && /^["']/.test(text) && text.endsWith(text.charAt(0))
  return { text: isQuoted ? text.slice(1, -1) : text, isQuoted }
}
