// Reads the front matter of Markdown files: YAML between two lines of `---`. Agents write such files, so the time is linear in
// their length.
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

/** The value of the first line `key: value`. A reader for one line is enough here and accepts what YAML would refuse. */
export function frontMatterValue(markdown: string, key: string): FrontMatterValue {
  const { matter = '' } = splitFrontMatter(markdown)
  const line = matter.split('\n').find((each) => each.startsWith(`${key}:`)) ?? ''
  return readScalar(line.slice(key.length + 1))
}

/** The values of the lines `- value` that follow the first line `key:`. */
export function frontMatterItems(markdown: string, key: string): string[] {
  const { matter = '' } = splitFrontMatter(markdown)
  const lines = matter.split('\n').map((line) => trimTrailing(line, ' \t\r'))
  const below = lines.slice(lines.indexOf(`${key}:`) + 1 || lines.length)
  const end = below.findIndex((line) => !/^[ \t]*- /.test(line))
  return below.slice(0, end < 0 ? undefined : end).map((line) => readScalar(line.slice(line.indexOf('- ') + 2)).text)
}

function readScalar(value: string): FrontMatterValue {
  const text = trimLeading(trimTrailing(value, ' \t\r'), ' \t')
  const isQuoted = text.length > 1 && /^["']/.test(text) && text.endsWith(text.charAt(0))
  return { text: isQuoted ? text.slice(1, -1) : text, isQuoted }
}
