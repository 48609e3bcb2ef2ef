// Two small pattern languages: paths (`a/*`, `a/**`, `[ab]?`) and texts (`x*y`). Neither backtracks, so no hostile pattern or
// subject can block the process.

export type Matcher = (subject: string) => boolean

/** Far above any real pattern; bounds a match to pattern length times subject length. */
export const MAX_PATTERN = 1024
const SLASH = 0x2f
const LAST_POINT = 0x10ffff

type Range = readonly [low: number, high: number]

/** A state of a compiled path: characters that advance, characters that stay, and how many states it may skip. */
interface Step {
  readonly take: readonly Range[]
  readonly stay: readonly Range[]
  readonly skip: 0 | 1 | 2
}

const SEGMENT_CHARACTER: readonly Range[] = [
  [0, SLASH - 1],
  [SLASH + 1, LAST_POINT],
]
const SEPARATOR: Step = { take: [[SLASH, SLASH]], stay: [], skip: 0 }
const STAR: Step = { take: [], stay: SEGMENT_CHARACTER, skip: 1 }
// `/**` is two steps: nothing at all, or a slash and then anything.
const ENTER: Step = { take: [[SLASH, SLASH]], stay: [], skip: 2 }
const INSIDE: Step = { take: [], stay: [[0, LAST_POINT]], skip: 1 }

/** Whether a path pattern has special characters; otherwise it matches only itself. */
export function isGlob(pattern: string): boolean {
  return /[*?[\\]/.test(pattern)
}

/**
 * Compiles a path glob: segments are shell-style and never cross `/`; a segment `**` matches any number of segments, also
 * none. Undefined if the pattern is malformed.
 */
export function compileSegments(pattern: string): Matcher | undefined {
  if (pattern.length > MAX_PATTERN) return undefined
  if (!isGlob(pattern)) return (subject) => subject === pattern
  if (pattern === '**') return () => true
  const base = pattern.slice(0, -'/**'.length)
  // Nearly every pattern in use is a subtree, for which comparing a prefix is cheapest.
  if (pattern.endsWith('/**') && !isGlob(base)) {
    const below = `${base}/`
    return (subject) => subject === base || subject.startsWith(below)
  }
  const steps = parsePath(pattern)
  if (!steps) return undefined
  // Compiled on first use: of a thousand loaded patterns only a few are ever matched.
  let run: Matcher | undefined
  return (subject) => {
    run ??= automaton(steps)
    return run(subject)
  }
}

/** Compiles a text glob, where `*` matches any run of characters and nothing else is special. */
export function compileText(pattern: string): Matcher | undefined {
  if (pattern.length > MAX_PATTERN) return undefined
  const [head = '', ...others] = pattern.split('*')
  const tail = others.pop()
  if (tail === undefined) return (subject) => subject === pattern
  const finders = others.filter((part) => part !== '').map(finder)
  return (subject) => {
    const end = subject.length - tail.length
    if (end < head.length || !subject.startsWith(head) || !subject.endsWith(tail)) return false
    let at = head.length
    for (const find of finders) {
      at = find(subject, at, end)
      if (at < 0) return false
    }
    return true
  }
}

/** Whether `outer` certainly matches all that `inner` matches. False if unknown, since this guards delegation of rights. */
export function patternCovers(outer: string, inner: string): boolean {
  if (outer === inner || outer === '**') return true
  if (!isGlob(inner)) return compileSegments(outer)?.(inner) ?? false
  const base = outer.slice(0, -'/**'.length)
  if (!outer.endsWith('/**') || isGlob(base)) return false
  const known = plainSegments(inner)
  const required = base.split('/')
  return required.length <= known.length && required.every((segment, at) => segment === known[at])
}

/** Whether some path may match both. True for malformed or very long patterns. */
export function patternsMayOverlap(left: string, right: string): boolean {
  if (!isGlob(left)) return compileSegments(right)?.(left) ?? false
  if (!isGlob(right)) return compileSegments(left)?.(right) ?? false
  const known = plainSegments(right)
  if (!plainSegments(left).every((segment, at) => known[at] === undefined || segment === known[at])) return false
  if (left.length * right.length > MEETING_MAX) return true
  const [a, b] = [parsePath(left), parsePath(right)]
  return a === undefined || b === undefined || haveCommon(a, b)
}

/** Limit of state pairs to compare. */
const MEETING_MAX = 16_384

/** Whether both automata accept a common text: searches pairs of states, each visited once. */
function haveCommon(left: readonly Step[], right: readonly Step[]): boolean {
  const width = right.length + 1
  const seen = new Uint8Array((left.length + 1) * width)
  const open: number[] = []
  const visit = (l: number, r: number): void => {
    const pair = l * width + r
    if (seen[pair]) return
    seen[pair] = 1
    open.push(pair)
  }
  visit(0, 0)
  for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
    const [l, r] = [Math.floor(pair / width), pair % width]
    const [a, b] = [left[l], right[r]]
    if (!a && !b) return true
    if (a && a.skip > 0) visit(l + a.skip, r)
    if (b && b.skip > 0) visit(l, r + b.skip)
    if (!a || !b) continue
    if (overlap(a.take, b.take)) visit(l + 1, r + 1)
    if (overlap(a.take, b.stay)) visit(l + 1, r)
    if (overlap(a.stay, b.take)) visit(l, r + 1)
  }
  return false
}

function overlap(left: readonly Range[], right: readonly Range[]): boolean {
  return left.some(([low, high]) => right.some((range) => range[0] <= high && low <= range[1]))
}

/** The segments before the first one with a glob. */
function plainSegments(pattern: string): string[] {
  const segments = pattern.split('/')
  const first = segments.findIndex(isGlob)
  return first < 0 ? segments : segments.slice(0, first)
}

/** Every segment includes the slash before it and the subject gets a leading one, so `**` needs no special case at the start. */
function parsePath(pattern: string): Step[] | undefined {
  const steps: Step[] = []
  for (const segment of pattern.split('/')) {
    if (segment === '**') {
      if (steps.at(-1) !== INSIDE) steps.push(ENTER, INSIDE)
      continue
    }
    const inner = parseSegment(segment)
    if (!inner) return undefined
    steps.push(SEPARATOR, ...inner)
  }
  return steps
}

function parseSegment(segment: string): Step[] | undefined {
  const token = /\\(?<escaped>.)|\[(?<set>(?:\\.|[^\]\\])+)\]|(?<any>\?)|(?<star>\*)(?!\*)|(?<plain>[^\\[*?])/suy
  const steps: Step[] = []
  while (token.lastIndex < segment.length) {
    const groups = token.exec(segment)?.groups
    if (!groups) return undefined
    if (groups.star !== undefined) {
      steps.push(STAR)
      continue
    }
    const take = groups.any ? SEGMENT_CHARACTER : groups.set ? parseSet(groups.set) : literal(groups)
    if (!take) return undefined
    steps.push({ take, stay: [], skip: 0 })
  }
  return steps
}

function literal(groups: Record<string, string>): Range[] {
  const point = pointOf(groups.escaped ?? groups.plain ?? '')
  return [[point, point]]
}

/** Parses the inside of `[…]`. A leading or trailing dash is literal. */
function parseSet(body: string): readonly Range[] | undefined {
  const negated = /^[!^]/.test(body)
  const members = negated ? body.slice(1) : body
  if (members === '') return undefined
  const ranges: Range[] = []
  for (const [, from = '', to = from] of members.matchAll(/(\\.|[^\\])(?:-(\\.|[^\\]))?/gsu)) {
    const range: Range = [pointOf(from.replace(/^\\/, '')), pointOf(to.replace(/^\\/, ''))]
    if (range[0] > range[1]) return undefined
    ranges.push(range)
  }
  // Complementing twice removes the slash, which a range such as `[+-9]` would include.
  return negated ? complement(ranges) : complement(complement(ranges))
}

/** All segment characters except these. */
function complement(ranges: readonly Range[]): Range[] {
  const slash: Range = [SLASH, SLASH]
  const rest: Range[] = []
  let next = 0
  for (const [low, high] of [...ranges, slash].sort((a, b) => a[0] - b[0])) {
    if (low > next) rest.push([next, low - 1])
    next = Math.max(next, high + 1)
  }
  if (next <= LAST_POINT) rest.push([next, LAST_POINT])
  return rest
}

function pointOf(character: string): number {
  return character.codePointAt(0) ?? 0
}

/**
 * Simulates all states at once, one bit per state: a character costs the pattern length divided by 32. Characters between
 * two cuts behave alike, so there are few masks however large the alphabet.
 */
function automaton(steps: readonly Step[]): Matcher {
  const words = (steps.length >>> 5) + 1
  const cuts = findCuts(steps)
  const take = new Int32Array(words * cuts.length)
  const stay = new Int32Array(words * cuts.length)
  const skips = [new Int32Array(words), new Int32Array(words), new Int32Array(words)] as const
  for (const [state, step] of steps.entries()) {
    setBit(skips[step.skip], state)
    for (const [cut, point] of cuts.entries()) {
      if (includes(step.take, point)) setBit(take, cut * words * 32 + state)
      if (includes(step.stay, point)) setBit(stay, cut * words * 32 + state)
    }
  }

  const state = new Int32Array(words)
  /** Advances every state by one character; returns whether any is left. */
  const feed = (point: number): boolean => {
    const base = findCut(cuts, point) * words
    let [taken, once, twice, alive] = [0, 0, 0, 0]
    for (let w = 0; w < words; w++) {
      const before = word(state, w)
      const taking = before & word(take, base + w)
      let after = (taking << 1) | taken | (before & word(stay, base + w))
      // One round of free moves suffices: only a `*` before a `/**` makes two, and in this order.
      const single = after & word(skips[1], w)
      after |= (single << 1) | once
      const double = after & word(skips[2], w)
      after |= (double << 2) | twice
      taken = taking >>> 31
      once = single >>> 31
      twice = double >>> 30
      state[w] = after
      alive |= after
    }
    return alive !== 0
  }

  return (subject) => {
    state.fill(0)
    state[0] = 1 | (1 << (steps[0]?.skip ?? 0))
    if (!feed(SLASH)) return false
    for (let at = 0; at < subject.length; ) {
      const point = subject.codePointAt(at) ?? 0
      if (!feed(point)) return false
      at += point > 0xffff ? 2 : 1
    }
    return ((word(state, steps.length >>> 5) >>> (steps.length & 31)) & 1) === 1
  }
}

function word(bits: Int32Array, at: number): number {
  return bits[at] ?? 0
}

function setBit(bits: Int32Array, at: number): void {
  bits[at >>> 5] = word(bits, at >>> 5) | (1 << (at & 31))
}

function includes(ranges: readonly Range[], point: number): boolean {
  return ranges.some(([low, high]) => low <= point && point <= high)
}

/** Where ranges begin or have just ended: the first character of each stretch that all steps treat alike. */
function findCuts(steps: readonly Step[]): number[] {
  const cuts = new Set([0])
  for (const { take, stay } of steps) {
    for (const [low, high] of [...take, ...stay]) cuts.add(low).add(high + 1)
  }
  cuts.delete(LAST_POINT + 1)
  return [...cuts].sort((a, b) => a - b)
}

/** The last cut at or below the character. */
function findCut(cuts: readonly number[], point: number): number {
  let low = 0
  let high = cuts.length - 1
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if ((cuts[middle] ?? 0) <= point) low = middle
    else high = middle - 1
  }
  return low
}

/** Knuth-Morris-Pratt: the end of the first occurrence within [from, end), or -1. Reads no character twice. */
function finder(needle: string): (subject: string, from: number, end: number) => number {
  const fallback = new Int32Array(needle.length)
  for (let at = 1, matched = 0; at < needle.length; at++) {
    while (matched > 0 && needle[at] !== needle[matched]) matched = word(fallback, matched - 1)
    if (needle[at] === needle[matched]) matched++
    fallback[at] = matched
  }
  return (subject, from, end) => {
    for (let at = from, matched = 0; at < end; at++) {
      const unit = subject.charCodeAt(at)
      while (matched > 0 && unit !== needle.charCodeAt(matched)) matched = word(fallback, matched - 1)
      if (unit === needle.charCodeAt(matched)) matched++
      if (matched === needle.length) return at + 1
    }
    return -1
  }
}
