// Splits a long Markdown text into messages: between paragraphs, else lines, else words. A code fence that is cut is closed and
// opened again, and no cut is inside of a link that fits into a message.

/** `measure` counts a text as the platform does. */
export function splitText(text: string, max: number, measure: (text: string) => number = lengthOf): string[] {
  const parts: string[] = []
  let rest = text.trim()
  let fence: Fence | undefined
  while (rest !== '') {
    const opening = openingOf(fence, max)
    // A character of two units may count as one.
    const window = rest.slice(0, 2 * max + 2)
    if (window.length === rest.length && measure(opening + rest) <= max) {
      parts.push(opening + rest)
      break
    }
    const shownOf = (taken: string): string => opening + taken.trimEnd() + closingOf(fenceAfter(taken, fence), max)
    const at = outsidePair(
      rest,
      cutOf(window, fence, (taken) => measure(shownOf(taken)) <= max),
    )
    const taken = rest.slice(0, at)
    if (taken.trim() !== '') parts.push(shownOf(taken))
    fence = fenceAfter(taken, fence)
    rest = rest.slice(at)
    if (fence === undefined) rest = rest.trimStart()
    else {
      // Indentation of code is kept.
      rest = rest.replace(/^\n/, '')
      const end = closingOf(fence, max) === '' ? undefined : closingLineOf(rest, fence)
      if (end !== undefined) {
        rest = rest.slice(end).trimStart()
        fence = undefined
      }
    }
  }
  return parts
}

function lengthOf(text: string): number {
  return text.length
}

/** Where to cut: the last good place of the longest start that fits. */
function cutOf(text: string, fence: Fence | undefined, fits: (taken: string) => boolean): number {
  const longest = longestFit(text, fits)
  const isCode = fenceAfter(text.slice(0, longest), fence) !== undefined
  const last = (mark: string): number => text.lastIndexOf(mark, longest)
  const places = isCode ? [last('\n')] : [last('\n\n'), last('\n'), lastSentenceEnd(text.slice(0, longest)), last(' ')]
  const isGood = (at: number): boolean =>
    at > longest / 2 && startOfLink(text, at) === undefined && fits(text.slice(0, at))
  const link = startOfLink(text, longest)
  const at = places.find(isGood) ?? (link !== undefined && link > 0 && fits(text.slice(0, link)) ? link : longest)
  return beforeFenceLine(text, at, fence)
}

/** The same place, or the one before the line of a fence that it would cut or leave without code. */
function beforeFenceLine(text: string, at: number, fence: Fence | undefined): number {
  const taken = text.slice(0, at)
  const before = taken.trimEnd().lastIndexOf('\n')
  if (before <= 0) return at
  const end = text.indexOf('\n', before + 1)
  const lineEnd = end < 0 ? text.length : end
  if (!/^ {0,3}(?:```|~~~)/.test(text.slice(before + 1, lineEnd))) return at
  return at >= lineEnd && fenceAfter(taken, fence) === undefined ? at : before
}

/** At least one character, so that it ends; never between two surrogates. */
function outsidePair(text: string, cut: number): number {
  const at = Math.max(1, cut)
  const isInPair = isBetween(text.charCodeAt(at - 1), 0xd800, 0xdbff) && isBetween(text.charCodeAt(at), 0xdc00, 0xdfff)
  if (!isInPair) return at
  return at > 1 ? at - 1 : at + 1
}

function isBetween(code: number, low: number, high: number): boolean {
  return code >= low && code <= high
}

/** Sizes grow with the text, apart from a few characters at a fence, so the search takes few steps. */
function longestFit(text: string, fits: (taken: string) => boolean): number {
  let [low, high] = [0, text.length]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(text.slice(0, middle))) low = middle
    else high = middle - 1
  }
  return low
}

function lastSentenceEnd(text: string): number {
  return Math.max(...['. ', '! ', '? ', '。'].map((mark) => text.lastIndexOf(mark))) + 1
}

/** A code fence that is open. */
interface Fence {
  readonly marks: string
  /** Such as `js`. */
  readonly info: string
}

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/gm

/** The fence that is open at the end of the text. */
function fenceAfter(text: string, before: Fence | undefined): Fence | undefined {
  let open = before
  for (const [, marks = '', info = ''] of text.matchAll(FENCE)) {
    if (open === undefined) {
      if (marks.startsWith('~') || !info.includes('`')) open = { marks, info: info.trim() }
    } else if (info.trim() === '' && marks.startsWith(open.marks)) open = undefined
  }
  return open
}

/** Where the line ends that closes the fence, if the text starts with one. */
function closingLineOf(text: string, { marks }: Fence): number | undefined {
  const [line, closing] = /^ {0,3}(`{3,}|~{3,})[ \t]*(?=\n|$)/.exec(text) ?? []
  return closing?.startsWith(marks) ? line?.length : undefined
}

/** Longer fences are not closed and opened again: they would fill the messages. */
const isRepeated = ({ marks }: Fence, max: number): boolean => 8 * marks.length <= max

function openingOf(fence: Fence | undefined, max: number): string {
  if (fence === undefined || !isRepeated(fence, max)) return ''
  return `${fence.marks}${8 * fence.info.length <= max ? fence.info : ''}\n`
}

function closingOf(fence: Fence | undefined, max: number): string {
  return fence === undefined || !isRepeated(fence, max) ? '' : `\n${fence.marks}`
}

/** The start of the link or URL that contains this position. No link that is longer than the text counts. */
function startOfLink(text: string, at: number): number | undefined {
  const before = text.slice(0, at)
  const bracket = before.lastIndexOf('[')
  if (bracket >= 0) {
    const [link] = /^\[[^\][]*\]\([^()\s]*\)/.exec(text.slice(bracket)) ?? []
    if (link !== undefined && bracket + link.length > at) return before.endsWith('!', bracket) ? bracket - 1 : bracket
  }
  const url = Math.max(before.lastIndexOf('https://'), before.lastIndexOf('http://'))
  if (url >= 0 && !/\s/.test(before.slice(url)) && /^\S/.test(text.slice(at, at + 1))) return url
  return undefined
}
