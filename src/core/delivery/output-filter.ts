// Filters an agent's prose before it reaches the chat: removes thoughts, status lines and filler such as "No response
// needed".

interface FilteredOutput {
  /** Empty if nothing is to be sent. */
  readonly text: string
  /** Contents of the status blocks, in order. */
  readonly statuses: readonly string[]
}

/** The length of attributes is limited so that matching takes linear time. */
const TAG = /<(\/?)(internal|think|thinking|status)(?:\s[^<>]{0,200})?>/gi
/** Sentences that say nothing, in lower case and without punctuation. */
const FILLERS: ReadonlySet<string> = new Set([
  'acknowledged',
  ...combine(
    ['no response', 'no reply', 'no answer', 'no action', 'no further action'],
    ['', 'is '],
    ['requested', 'needed', 'required', 'necessary'],
  ),
  ...combine(['nothing', 'i have nothing'], ['', 'further ', 'more ', 'else '], ['to add', 'to say', 'to report']),
])

function combine(starts: readonly string[], middles: readonly string[], ends: readonly string[]): string[] {
  return starts.flatMap((start) => middles.flatMap((middle) => ends.map((end) => `${start} ${middle}${end}`)))
}

/** Blocks may be nested. An unclosed block extends to the end of the text; an unclosed status, to the end of its line. */
export function filterOutput(text: string): FilteredOutput {
  const tags = [...text.matchAll(TAG)]
  if (tags.length === 0) return { text: withoutFiller(text), statuses: [] }
  const lastStatusEnd =
    tags.findLast(([, slash, name]) => slash === '/' && name?.toLowerCase() === 'status')?.index ?? -1
  const statuses: string[] = []
  const open: string[] = []
  /** The number of open blocks of each name, so that the list is searched only for blocks that it contains. */
  const counts = new Map<string, number>()
  let [prose, status, at] = ['', '', 0]
  const take = (until: number): void => {
    const between = text.slice(at, until)
    if (open.length === 0) prose += between
    else if (open.length === 1 && open[0] === 'status') status += between
  }
  for (const tag of tags) {
    const [whole, slash, word = ''] = tag
    if (tag.index < at) continue
    const name = word.toLowerCase()
    take(tag.index)
    at = tag.index + whole.length
    if (slash === '/') {
      const from = (counts.get(name) ?? 0) > 0 ? open.lastIndexOf(name) : -1
      if (from === 0 && name === 'status') {
        statuses.push(status)
        status = ''
      }
      if (from >= 0) for (const closed of open.splice(from)) counts.set(closed, (counts.get(closed) ?? 1) - 1)
    } else if (name !== 'status' || (open.length === 0 && tag.index < lastStatusEnd)) {
      open.push(name)
      counts.set(name, (counts.get(name) ?? 0) + 1)
    } else if (open.length === 0) {
      const newline = text.indexOf('\n', at)
      const end = newline < 0 ? text.length : newline
      statuses.push(text.slice(at, end).replace(TAG, ''))
      at = end
    }
  }
  take(text.length)
  return {
    text: withoutFiller(prose.trim()),
    statuses: statuses.map((each) => each.trim()).filter((each) => each !== ''),
  }
}

function withoutFiller(text: string): string {
  // A text without letters may still be an emoji or a number.
  return text.trim() === '' || FILLERS.has(wordsOf(text)) ? '' : text
}

function wordsOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\s]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()
}

/** An unfinished tag at the end of a text. */
const TAG_START = /^<\/?([a-z]*)(\s[^<>]{0,200})?$/i
const TAG_NAMES = ['internal', 'think', 'thinking', 'status']
/** Longer than a filler with any punctuation that a model would write. */
const FILLER_MAX = 200

/**
 * Filters a text that is still being written: takes it in pieces and returns what is certain. What it has returned is always the
 * start of what `filterOutput` makes of the whole text. Reads each character once, and keeps only what may still be shown.
 */
export class DraftFilter {
  /** May still become a tag. */
  #tagStart = ''
  readonly #blocks = new OpenBlocks()
  /** Prose that may still be a filler; undefined once it is none. */
  #held: string | undefined = ''
  #space = ''

  push(piece: string): string {
    const prose = this.#readProse(this.#tagStart + piece)
    if (prose.trim() === '') {
      if (this.#held === undefined) this.#space += prose
      else if (this.#held !== '') this.#held += prose
      return ''
    }
    const text = this.#held === undefined ? this.#space + prose : (this.#held + prose).trimStart()
    const shown = text.trimEnd()
    this.#space = text.slice(shown.length)
    if (this.#held === undefined) return shown
    const isHeld = shown.length <= FILLER_MAX && mayBecomeFiller(wordsOf(shown))
    this.#held = isHeld ? text : undefined
    return isHeld ? '' : shown
  }

  /** The prose outside of blocks. What a block contains is never shown, also if it is not closed. */
  #readProse(text: string): string {
    const end = startOfUnfinishedTag(text)
    this.#tagStart = text.slice(end)
    let [prose, at] = ['', 0]
    for (const { 0: whole, 1: slash, 2: name = '', index } of text.slice(0, end).matchAll(TAG)) {
      if (this.#blocks.isEmpty) prose += text.slice(at, index)
      at = index + whole.length
      if (slash === '/') this.#blocks.close(name.toLowerCase())
      else this.#blocks.open(name.toLowerCase())
    }
    return this.#blocks.isEmpty ? prose + text.slice(at, end) : prose
  }
}

class OpenBlocks {
  readonly #names: string[] = []
  readonly #counts = new Map<string, number>()

  get isEmpty(): boolean {
    return this.#names.length === 0
  }

  open(name: string): void {
    if (name === 'status' && !this.isEmpty) return
    this.#names.push(name)
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
  }

  /** Closes the last block with this name, and those inside of it. */
  close(name: string): void {
    if (!this.#counts.get(name)) return
    for (let closed: string | undefined; closed !== name; ) {
      closed = this.#names.pop()
      if (closed !== undefined) this.#counts.set(closed, (this.#counts.get(closed) ?? 0) - 1)
    }
  }
}

/** The length of the text if there is none at its end. */
function startOfUnfinishedTag(text: string): number {
  const start = text.lastIndexOf('<')
  const [partial, word = '', attributes] = TAG_START.exec(start < 0 ? '' : text.slice(start)) ?? []
  const isName = (name: string): boolean =>
    attributes === undefined ? name.startsWith(word.toLowerCase()) : name === word.toLowerCase()
  return partial !== undefined && TAG_NAMES.some(isName) ? start : text.length
}

function mayBecomeFiller(words: string): boolean {
  for (const filler of FILLERS) if (filler.startsWith(words)) return true
  return false
}
