// Finds regular expressions whose time can grow faster than their text. The engine backtracks, so a pattern is slow if
// two different ways through it read the same long text and the rest can then fail: `(.*?)\s*$`, `(a+)+b`, and, because a
// search starts at every character, also `\s+$`.
//
// A pattern becomes a graph whose nodes are its single characters and whose edges say which one may follow. Two ways for
// one text are found in the product of the graph with itself. Assertions count as parts that can fail.

/** Characters that stand for all others; those of the pattern are added. */
const SAMPLES = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  ...[
    '\u0085',
    '\u00a0',
    'é',
    'ß',
    '\u0301',
    '\u200b',
    '\u200d',
    '\ufe0f',
    '\u2028',
    '\ufeff',
    '\ufffd',
    '漢',
    '\ud800',
    '😀',
  ],
]
/** More repetitions than this count as any number. */
const FEW = 16

interface Part {
  readonly nullable: boolean
  readonly first: readonly number[]
  readonly last: readonly number[]
  /** Nodes where a match can begin or end without an assertion that can fail. */
  readonly freeFirst: readonly number[]
  readonly freeLast: readonly number[]
  /** An assertion lies on an empty way through the part. */
  readonly guarded: boolean
  readonly anchored?: boolean
  /** Reads any text to its end, so that a `$` after it holds. */
  readonly readsAll?: boolean
}

const EMPTY: Part = { nullable: true, first: [], last: [], freeFirst: [], freeLast: [], guarded: false }

class Graph {
  /** What each node reads, as a pattern of one character. */
  readonly atoms: string[] = []
  /** How many ways lead from one node to the next. */
  readonly ways: Map<number, number>[] = []

  node(atom: string): number {
    this.ways.push(new Map())
    return this.atoms.push(atom) - 1
  }

  connect(from: readonly number[], to: readonly number[]): void {
    for (const a of from) for (const b of to) this.ways[a]?.set(b, (this.ways[a].get(b) ?? 0) + 1)
  }
}

class Parser {
  readonly graph = new Graph()
  /** What the groups of one character read, for back-references. */
  readonly #groups = new Map<string, string>()
  #count = 0
  #at = 0
  readonly #text: string
  readonly #flags: string

  constructor(text: string, flags: string) {
    this.#text = text
    this.#flags = flags
  }

  parse(): Part {
    const parts = [this.#sequence()]
    while (this.#take('|')) parts.push(this.#sequence())
    const all = (pick: (part: Part) => readonly number[]): number[] => parts.flatMap((part) => [...pick(part)])
    return {
      nullable: parts.some((part) => part.nullable),
      first: all((part) => part.first),
      last: all((part) => part.last),
      freeFirst: all((part) => part.freeFirst),
      freeLast: all((part) => part.freeLast),
      guarded: parts.every((part) => !part.nullable || part.guarded),
      anchored: parts.every((part) => part.anchored === true),
      readsAll: parts.length === 1 && parts[0]?.readsAll === true,
    }
  }

  #take(text: string): boolean {
    if (!this.#text.startsWith(text, this.#at)) return false
    this.#at += text.length
    return true
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    const found = new RegExp(pattern.source, 'ysu')
    found.lastIndex = this.#at
    const match = found.exec(this.#text) ?? undefined
    this.#at += match?.[0].length ?? 0
    return match
  }

  #sequence(): Part {
    let whole = EMPTY
    while (this.#at < this.#text.length && !/[|)]/.test(this.#text.charAt(this.#at)))
      whole = this.#join(whole, this.#repeated())
    return whole
  }

  #join(a: Part, b: Part): Part {
    this.graph.connect(a.last, b.first)
    const isEnd = b.guarded && b.first.length === 0 && a.readsAll === true
    return {
      nullable: a.nullable && b.nullable,
      first: [...a.first, ...(a.nullable ? b.first : [])],
      last: [...b.last, ...(b.nullable ? a.last : [])],
      freeFirst: [...a.freeFirst, ...(a.nullable && !a.guarded ? b.freeFirst : [])],
      freeLast: [...b.freeLast, ...(b.nullable && (!b.guarded || isEnd) ? a.freeLast : [])],
      guarded: (a.guarded || b.guarded) && !isEnd,
      anchored: a.anchored === true || (a.nullable && a.first.length === 0 && b.anchored === true),
      readsAll: b.readsAll === true,
    }
  }

  /** One part with its quantifier. */
  #repeated(): Part {
    const from = this.#at
    const before = this.graph.atoms.length
    const part = this.#single()
    const text = this.#text.slice(from, this.#at)
    const [quantifier, least = '', comma, most] = this.#match(/[*+?]|\{(\d+)(?:(,)(\d*))?\}/) ?? []
    if (quantifier === undefined) return part
    this.#take('?')
    const counts: Readonly<Record<string, readonly [number, number]>> = {
      '*': [0, Infinity],
      '+': [1, Infinity],
      '?': [0, 1],
    }
    const [min, max] = counts[quantifier] ?? [
      Number(least),
      comma === undefined ? Number(least) : most === '' ? Infinity : Number(most),
    ]
    if (max > FEW) this.graph.connect(part.last, part.first)
    const readsAll = max === Infinity && this.graph.atoms.length === before + 1 && this.#isAny(text)
    if (min > 0) return { ...part, readsAll }
    return { ...part, nullable: true, guarded: part.nullable && part.guarded, anchored: false, readsAll }
  }

  #isAny(atom: string): boolean {
    // With `m`, a `$` holds at any line break.
    const any = this.#flags.includes('m') ? '[^\\n\\r\\u2028\\u2029]' : '[^]'
    return SAMPLES.every((sample) => this.reads(atom, sample) || !this.reads(any, sample))
  }

  reads(atom: string, sample: string): boolean {
    const flags = this.#flags.replace(/[gydm]/g, '')
    // Without `u` a pair of surrogates is two characters.
    const isWhole = /[uv]/.test(flags) || sample.length === 1
    return isWhole && new RegExp(`^(?:${atom})$`, flags).test(sample)
  }

  #single(): Part {
    if (this.#take('^')) return { ...EMPTY, guarded: true, anchored: !this.#flags.includes('m') }
    if (this.#take('$') || this.#match(/\\[bB]/)) return { ...EMPTY, guarded: true }
    const [look] = this.#match(/\(\?<?[=!]/) ?? []
    if (look !== undefined) {
      const inner = this.parse()
      this.#take(')')
      // What a lookahead reads is read again afterwards, so its loops count, and the match can fail after it.
      return look.includes('<')
        ? { ...EMPTY, guarded: true }
        : { ...EMPTY, guarded: true, first: inner.first, freeFirst: inner.freeFirst }
    }
    const [group] = this.#match(/\((?:\?:|\?<\w+>|\?[ims-]+:)?/) ?? []
    if (group !== undefined) {
      const number = String(group === '(' || group.startsWith('(?<') ? ++this.#count : '')
      const [from, before] = [this.#at, this.graph.atoms.length]
      const inner = this.parse()
      if (this.graph.atoms.length === before + 1) this.#groups.set(number, this.#text.slice(from, this.#at))
      this.#take(')')
      return inner
    }
    const [atom = ''] =
      this.#match(/\[\^?(?:\\.|[^\]\\])*\]/) ??
      this.#match(/\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|k<\w+>|\d+|.)/) ??
      this.#match(/./) ??
      []
    const [, reference] = /^\\([1-9]\d*|k<.*)$/.exec(atom) ?? []
    const node = this.graph.node(reference === undefined ? atom : (this.#groups.get(reference) ?? '[^]'))
    return { nullable: false, first: [node], last: [node], freeFirst: [node], freeLast: [node], guarded: false }
  }
}

/** Returns the parts of the pattern that read the same text, or undefined if its time is linear. */
export function backtrackingOf(source: string, flags: string): string | undefined {
  const parser = new Parser(source, flags)
  const whole = parser.parse()
  const { graph } = parser
  addSearch(graph, whole, flags)
  const samples = [...new Set([...SAMPLES, ...source])]
  const reads = graph.atoms.map((atom) => samples.map((sample) => parser.reads(atom, sample)))
  // Samples that the same nodes read count as one.
  const classes = [...new Map(samples.map((_, at) => [reads.map((row) => Number(row[at])).join(''), at])).values()]
  const edges = graph.ways.map((ways) => [...ways.keys()])
  const reach = edges.map((_, node) => reachable(edges, node))
  const loops = edges.flatMap((_, node) => (reach[node]?.has(node) ? [node] : []))
  const ends = new Set(whole.freeLast)
  const name = (node: number): string => graph.atoms[node] ?? ''
  /** Nodes that may follow all of `nodes` on one character. */
  const steps = (nodes: readonly number[]): number[][] =>
    classes.flatMap((sample) => {
      const next = nodes.map((node) => (edges[node] ?? []).filter((to) => reads[to]?.[sample]))
      return next.reduce<number[][]>((rows, list) => rows.flatMap((row) => list.map((to) => [...row, to])), [[]])
    })

  for (const p of loops)
    for (const q of loops) {
      if (ends.has(q) || !reach[p]?.has(q)) continue
      if (p === q ? hasTwoLoops(p) : hasLoopAndWay(p, q)) return `${name(p)} and ${name(q)}`
    }
  return undefined

  /** Two different ways from `p` back to it: exponential. */
  function hasTwoLoops(p: number): boolean {
    const inside = (node: number): boolean => Boolean(reach[node]?.has(p))
    return search([p, p, 0], ([a = 0, b = 0, differs = 0]) =>
      steps([a, b])
        .filter(([x = 0, y = 0]) => inside(x) && inside(y) && !ends.has(x))
        .map(([x = 0, y = 0]) => {
          const isDouble = a === b && x === y && (graph.ways[a]?.get(x) ?? 0) > 1
          return [x, y, differs || x !== y || isDouble ? 1 : 0]
        }),
    ).has([p, p, 1].join())
  }

  /** A text that loops at `p`, loops at `q` and leads from `p` to `q`: polynomial. */
  function hasLoopAndWay(p: number, q: number): boolean {
    return search([p, p, q], (nodes) =>
      steps(nodes).filter(
        ([x = 0, y = 0, z = 0]) =>
          reach[x]?.has(p) && reach[z]?.has(q) && !ends.has(z) && (y === q || reach[y]?.has(q)),
      ),
    ).has([p, q, q].join())
  }
}

/** A search without `^` or the sticky flag begins at any character, and with `m` after any line break. */
function addSearch(graph: Graph, whole: Part, flags: string): void {
  if (flags.includes('y')) return
  const any = graph.node('[^]')
  graph.connect([any], [any])
  graph.connect([any], [...new Set(whole.freeFirst)])
  if (!flags.includes('m')) return
  const lineBreak = graph.node('\\n')
  graph.connect([any], [lineBreak])
  graph.connect([lineBreak], whole.first)
}

function reachable(edges: readonly (readonly number[])[], from: number): Set<number> {
  const found = new Set<number>()
  const queue = [...(edges[from] ?? [])]
  for (let node = queue.pop(); node !== undefined; node = queue.pop()) {
    if (found.has(node)) continue
    found.add(node)
    queue.push(...(edges[node] ?? []))
  }
  return found
}

/** The states that follow `start` after at least one step, joined by commas. */
function search(start: readonly number[], next: (state: readonly number[]) => number[][]): Set<string> {
  const found = new Set<string>()
  const queue = [start]
  for (let state = queue.pop(); state !== undefined; state = queue.pop())
    for (const to of next(state)) {
      const key = to.join()
      if (found.has(key)) continue
      found.add(key)
      queue.push(to)
    }
  return found
}
