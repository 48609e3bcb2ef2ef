// Splits a long Markdown text into messages: between paragraphs, else lines, else words. A code fence that is cut is closed and
// opened again, and no cut is inside of a link.

/** `measure` counts a text as the platform does. */
export function splitText(text: string, max: number, measure: (text: string) => number = lengthOf): string[] {
  const parts: string[] = []
  let rest = text.trim()
  let fence: string | undefined
  while (rest !== '') {
    const opening = fence === undefined ? '' : `${fence}\n`
    // A character of two units may count as one.
    const window = rest.slice(0, 2 * max + 2)
    if (window.length === rest.length && measure(opening + rest) <= max) {
      parts.push(opening + rest)
      break
    }
    const at = cutOf(window, fence, (taken) => {
      const open = openFence(taken, fence)
      return measure(opening + taken.trimEnd() + (open === undefined ? '' : `\n${closingOf(open)}`)) <= max
    })
    const taken = rest.slice(0, at)
    const open = openFence(taken, fence)
    const shown = taken.trimEnd()
    if (shown !== '') parts.push(opening + shown + (open === undefined ? '' : `\n${closingOf(open)}`))
    // Indentation of code is kept.
    rest = open === undefined ? rest.slice(at).trimStart() : rest.slice(at).replace(/^\n/, '')
    fence = open
  }
  return parts
}

function lengthOf(text: string): number {
  return text.length
}

/** Where to cut: the last good place of the longest start that fits. */
function cutOf(text: string, fence: string | undefined, fits: (taken: string) => boolean): number {
  const longest = longestFit(text, fits)
  const head = text.slice(0, longest)
  const earliest = Math.floor(longest / 2)
  const isFree = (at: number): boolean => at > earliest && !isInLink(text, at)
  const inFence = openFence(head, fence) !== undefined
  const places = [
    inFence ? -1 : head.lastIndexOf('\n\n'),
    head.lastIndexOf('\n'),
    inFence ? -1 : lastSentenceEnd(head),
    inFence ? -1 : head.lastIndexOf(' '),
  ]
  for (const place of places) if (isFree(place)) return place
  const link = startOfLink(text, longest)
  if (link !== undefined && link > 0 && fits(text.slice(0, link))) return link
  // At least one character, so that it ends; never between two surrogates.
  const at = Math.max(1, longest)
  return isLowSurrogate(text.charCodeAt(at)) ? Math.max(at - 1, 2) : at
}

/** Sizes grow with the text, so the search takes few steps. */
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

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/gm
const FENCE_INFO_MAX = 64

/** The fence that is open at the end of the text, as its first line. */
export function openFence(text: string, before: string | undefined): string | undefined {
  let open = before
  for (const [line, marks = '', info = ''] of text.matchAll(FENCE)) {
    if (open === undefined) {
      if (!info.includes('`')) open = (marks + info.trimEnd()).slice(0, FENCE_INFO_MAX)
    } else if (info.trim() === '' && marks.startsWith(closingOf(open)) && line !== '') open = undefined
  }
  return open
}

function closingOf(fence: string): string {
  return /^(`+|~+)/.exec(fence)?.[0] ?? '```'
}

/** How far before a cut the start of a link is looked for. */
const LINK_MAX = 2048

function isInLink(text: string, at: number): boolean {
  return startOfLink(text, at) !== undefined
}

/** The start of the link or URL that contains this position. */
function startOfLink(text: string, at: number): number | undefined {
  const from = Math.max(0, at - LINK_MAX)
  const before = text.slice(from, at)
  const bracket = before.lastIndexOf('[')
  if (bracket >= 0 && /^\[[^\][]*(?:\](?:\([^()\s]*)?)?$/.test(before.slice(bracket))) {
    const start = from + bracket
    if (/^\[[^\][]*\]\([^()\s]*\)/.test(text.slice(start, at + LINK_MAX))) return start
  }
  const url = Math.max(before.lastIndexOf('https://'), before.lastIndexOf('http://'))
  if (url >= 0 && !/\s/.test(before.slice(url)) && /^\S/.test(text.slice(at, at + 1))) return from + url
  return undefined
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff
}
