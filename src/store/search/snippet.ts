// The part of a text that shows its hits, marked. FTS5 has a function for it whose time grows with the square of the hits of
// one text; here the time grows with the length of the text, and only the first hits are looked at.
import { foldWord, type Phrase, WORD } from './text-query.ts'

const WORDS = 32
const CHARACTERS = 1000
const HITS = 500

/** Positions in the text, and numbers of the first word and of the word after the last one. */
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

/** `«` and `»` are around each hit, `…` where text is left out. Without a hit it is the beginning of the text. */
export function snippetOf(text: string, phrases: readonly Phrase[]): string {
  const { words, hits } = findHits(text, phrases)
  const [from, to] = bestWindow(words, hits)
  const first = hits.find((hit) => hit.from >= from)
  const start = from === 0 ? 0 : (words[from]?.start ?? 0)
  const end = to >= words.length ? text.length : (words[to - 1]?.end ?? text.length)
  return marked(text, hits, ...shortened(text, start, end, first?.start ?? start))
}

/** Words are read until enough hits were found, and then only as far as a snippet may need. */
function findHits(text: string, phrases: readonly Phrase[]): { words: Word[]; hits: Hit[] } {
  const words: Word[] = []
  const hits: Hit[] = []
  const longest = Math.max(0, ...phrases.map((phrase) => phrase.words.length))
  let matched = 0
  let enough = Number.POSITIVE_INFINITY
  for (const found of text.matchAll(WORD)) {
    words.push({ start: found.index, end: found.index + found[0].length, folded: foldWord(found[0]) })
    const at = words.length - longest
    if (at >= 0 && matched < HITS && addHit(hits, words, at, phrases)) matched++
    if (matched >= HITS) enough = Math.min(enough, words.length + WORDS + 1)
    if (words.length >= enough) return { words, hits }
  }
  for (let at = Math.max(0, words.length - longest + 1); at < words.length; at++) addHit(hits, words, at, phrases)
  return { words, hits }
}

/** The longest phrase that begins at this word. Hits that overlap are one. */
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

/** The words of the window with the most different hits, then the most; it has as much before them as after. */
function bestWindow(words: readonly Word[], hits: readonly Hit[]): readonly [from: number, to: number] {
  const textOf = (hit: Hit): string => words.slice(hit.from, hit.to).reduce((all, { folded }) => `${all} ${folded}`, '')
  const texts = hits.map(textOf)
  const inside = new Map<string, number>()
  let best = { score: -1, from: 0, to: 0 }
  let next = 0
  hits.forEach((hit, index) => {
    for (; (hits[next]?.to ?? Number.POSITIVE_INFINITY) <= hit.from + WORDS || next === index; next++)
      inside.set(texts[next] ?? '', (inside.get(texts[next] ?? '') ?? 0) + 1)
    const score = inside.size * HITS + next - index
    if (score > best.score) best = { score, from: hit.from, to: hits[next - 1]?.to ?? hit.to }
    const left = (inside.get(texts[index] ?? '') ?? 0) - 1
    if (left > 0) inside.set(texts[index] ?? '', left)
    else inside.delete(texts[index] ?? '')
  })
  const room = Math.max(0, WORDS - (best.to - best.from))
  const from = Math.max(0, Math.min(best.from - Math.floor(room / 2), words.length - WORDS))
  return [from, from + WORDS]
}

/** Words and what is between them may be of any length. `kept` is a position that stays inside. */
function shortened(text: string, start: number, end: number, kept: number): readonly [start: number, end: number] {
  if (end - start <= CHARACTERS) return [start, end]
  const from = Math.max(start, Math.min(kept - CHARACTERS / 4, end - CHARACTERS))
  const to = from + CHARACTERS
  return [isInsidePair(text, from) ? from + 1 : from, isInsidePair(text, to) ? to - 1 : to]
}

function isInsidePair(text: string, at: number): boolean {
  return (text.codePointAt(at - 1) ?? 0) > 0xffff
}

function marked(text: string, hits: readonly Hit[], start: number, end: number): string {
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
