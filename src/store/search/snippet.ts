// Snippets: the part of a document that shows its hits, highlighted. The time of FTS5's own snippet function grows with the
// square of the hits in a document; here it grows with the length of the document, and only the first hits are used.
import { foldWord, type Phrase, WORD } from './text-query.ts'

const SNIPPET_WORDS = 32
const SNIPPET_CHARACTERS = 1000
const HITS_MAX = 500

/** `start` and `end` are positions in the text; `from` and `to` are indexes of its first word and the word after its last. */
interface Hit {
  readonly start: number
  readonly end: number
  readonly from: number
  readonly to: number
}

interface Word {
  readonly start: number
  readonly end: number
  readonly folded: string
}

/** Encloses each hit in `«` and `»` and writes `…` for omitted text. Without a hit the snippet is the start of the text. */
export function createSnippet(text: string, phrases: readonly Phrase[]): string {
  const { words, hits } = findHits(text, phrases)
  const [from, to] = findWindow(words, hits)
  const first = hits.find((hit) => hit.from >= from)
  const start = from === 0 ? 0 : (words[from]?.start ?? 0)
  const end = to >= words.length ? text.length : (words[to - 1]?.end ?? text.length)
  return highlightHits(text, hits, ...shorten(text, start, end, first?.start ?? start))
}

/** Stops at the maximum of hits, after the words that a snippet around the last one may need. */
function findHits(text: string, phrases: readonly Phrase[]): { words: Word[]; hits: Hit[] } {
  const words: Word[] = []
  const hits: Hit[] = []
  const longest = Math.max(0, ...phrases.map((phrase) => phrase.words.length))
  let matched = 0
  let enough = Number.POSITIVE_INFINITY
  for (const found of text.matchAll(WORD)) {
    words.push({ start: found.index, end: found.index + found[0].length, folded: foldWord(found[0]) })
    const at = words.length - longest
    if (at >= 0 && matched < HITS_MAX && addHit(hits, words, at, phrases)) matched++
    if (matched >= HITS_MAX) enough = Math.min(enough, words.length + SNIPPET_WORDS + 1)
    if (words.length >= enough) return { words, hits }
  }
  for (let at = Math.max(0, words.length - longest + 1); at < words.length; at++) addHit(hits, words, at, phrases)
  return { words, hits }
}

/** Adds the longest phrase that begins at this word. Overlapping hits are merged. */
function addHit(hits: Hit[], words: readonly Word[], at: number, phrases: readonly Phrase[]): boolean {
  let length = 0
  for (const phrase of phrases)
    if (phrase.words.length > length && matches(phrase, words, at)) length = phrase.words.length
  const [begin, last] = [words[at], words[at + length - 1]]
  if (length === 0 || !begin || !last) return false
  const before = hits.at(-1)
  if (!before || before.to <= at) hits.push({ start: begin.start, end: last.end, from: at, to: at + length })
  else if (before.to < at + length) hits[hits.length - 1] = { ...before, end: last.end, to: at + length }
  return true
}

function matches({ words: wanted, isPrefix }: Phrase, words: readonly Word[], at: number): boolean {
  return wanted.every((word, index) => {
    const there = words[at + index]?.folded
    return isPrefix && index === wanted.length - 1 ? there?.startsWith(word) : there === word
  })
}

/** Finds the window with the most different hits, then the most hits, and centers it on them. */
function findWindow(words: readonly Word[], hits: readonly Hit[]): readonly [from: number, to: number] {
  const textOf = (hit: Hit): string => words.slice(hit.from, hit.to).reduce((all, { folded }) => `${all} ${folded}`, '')
  const texts = hits.map(textOf)
  const inside = new Map<string, number>()
  let best = { score: -1, from: 0, to: 0 }
  let next = 0
  hits.forEach((hit, index) => {
    for (; (hits[next]?.to ?? Number.POSITIVE_INFINITY) <= hit.from + SNIPPET_WORDS || next === index; next++)
      inside.set(texts[next] ?? '', (inside.get(texts[next] ?? '') ?? 0) + 1)
    const score = inside.size * HITS_MAX + next - index
    if (score > best.score) best = { score, from: hit.from, to: hits[next - 1]?.to ?? hit.to }
    const left = (inside.get(texts[index] ?? '') ?? 0) - 1
    if (left > 0) inside.set(texts[index] ?? '', left)
    else inside.delete(texts[index] ?? '')
  })
  const room = Math.max(0, SNIPPET_WORDS - (best.to - best.from))
  const from = Math.max(0, Math.min(best.from - Math.floor(room / 2), words.length - SNIPPET_WORDS))
  return [from, from + SNIPPET_WORDS]
}

/** Limits the characters, because words and gaps can have any length. The position `kept` stays inside. */
function shorten(text: string, start: number, end: number, kept: number): readonly [start: number, end: number] {
  if (end - start <= SNIPPET_CHARACTERS) return [start, end]
  const from = Math.max(start, Math.min(kept - SNIPPET_CHARACTERS / 4, end - SNIPPET_CHARACTERS))
  const to = from + SNIPPET_CHARACTERS
  return [isInsidePair(text, from) ? from + 1 : from, isInsidePair(text, to) ? to - 1 : to]
}

function isInsidePair(text: string, at: number): boolean {
  return (text.codePointAt(at - 1) ?? 0) > 0xffff
}

function highlightHits(text: string, hits: readonly Hit[], start: number, end: number): string {
  const parts: string[] = []
  let at = start
  for (const hit of hits) {
    const [from, to] = [Math.max(hit.start, start), Math.min(hit.end, end)]
    if (from >= to) continue
    parts.push(text.slice(at, from), '«', text.slice(from, to), '»')
    at = to
  }
  parts.push(text.slice(at, end))
  return `${start > 0 ? '…' : ''}${parts.join('')}${end < text.length ? '…' : ''}`
}
