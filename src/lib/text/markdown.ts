// Parses the Markdown that agents write into a tree, for the chat page. Other syntax, above all HTML, stays text. Time is linear
// in the length: anyone can send a megabyte of asterisks.
//
// No library: on 50,000 characters of repeated random marks this takes at most 65 ms. marked 18.2.0 took up to 10 s (`**1.:"|>`)
// and overflowed the stack on `>>>…`, micromark 4.0.3 took 51 s on `_*_*…`, commonmark 0.31.2 5 s on `[a](…`. markdown-it 15.0.3
// kept below 0.3 s but needs a bundler and 6 packages; marked alone would double the page's script (53 kB).

export type Inline =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'break' }
  /** At the beginning of a task. */
  | { readonly kind: 'checkbox'; readonly isChecked: boolean }
  /** `[^1]` */
  | { readonly kind: 'reference'; readonly label: string }
  | { readonly kind: 'strong' | 'emphasis' | 'strike'; readonly children: readonly Inline[] }
  /** `href` begins with http://, https:// or mailto:. */
  | { readonly kind: 'link'; readonly href: string; readonly children: readonly Inline[] }

export type Alignment = 'left' | 'center' | 'right'

export type Block =
  | { readonly kind: 'paragraph'; readonly children: readonly Inline[] }
  | { readonly kind: 'heading'; readonly level: number; readonly children: readonly Inline[] }
  | { readonly kind: 'code'; readonly language: string; readonly text: string }
  | { readonly kind: 'quote'; readonly children: readonly Block[] }
  /** `start` is the first number; without it the list has bullets. */
  | { readonly kind: 'list'; readonly start: number | undefined; readonly items: readonly (readonly Block[])[] }
  | {
      readonly kind: 'table'
      /** One for each cell of the head. */
      readonly alignments: readonly (Alignment | undefined)[]
      readonly head: readonly (readonly Inline[])[]
      readonly rows: readonly (readonly (readonly Inline[])[])[]
    }
  | { readonly kind: 'rule' }
  /** `[^1]: text` */
  | { readonly kind: 'footnote'; readonly label: string; readonly children: readonly Inline[] }

/** Nesting of quotes and lists; deeper ones are text. */
const DEPTH_MAX = 8
/** Nesting of marks; deeper ones are text. */
const OPEN_MAX = 16
/** Characters of a link target; longer ones are text. */
const TARGET_MAX = 2048

/** Characters that are parsed; the rest of a longer text is shown as code. */
export const MARKDOWN_MAX = 50_000

export function parseMarkdown(text: string, max = MARKDOWN_MAX): Block[] {
  const parsed = truncateText(text, max, max)
  const blocks = parseBlocks(expandTabs(parsed.replace(/\r\n?/g, '\n').split('\n')), 0)
  if (parsed.length < text.length) blocks.push({ kind: 'code', language: '', text: text.slice(parsed.length) })
  return blocks
}

/** Except in code, which is copied: a Makefile needs its tabs. */
function expandTabs(lines: readonly string[]): string[] {
  let fence: { readonly mark: string; readonly isQuoted: boolean } | undefined
  return lines.map((line) => {
    const isQuoted = QUOTE.test(line)
    const content = isQuoted ? line.replace(QUOTES, '') : line
    if (fence && (isQuoted || !fence.isQuoted)) {
      if (isFenceEnd(fence.isQuoted ? content : line, fence.mark)) fence = undefined
      return line
    }
    // It may be in the first line of an item.
    const found = matchFence(expandLine(content).replace(ITEMS, ''))
    fence = found && { mark: found.mark, isQuoted }
    return expandLine(line)
  })
}

function expandLine(line: string): string {
  return line.replaceAll('\t', '    ')
}

/** The beginning of a text, cut after a line if possible, and never inside a character. */
export function truncateText(text: string, characters: number, lines: number): string {
  let end = Math.min(characters, text.length)
  let line = -1
  for (let count = 0; count < lines; count++) {
    line = text.indexOf('\n', line + 1)
    if (line < 0 || line > end) break
    if (count === lines - 1) end = line
  }
  const atLine = text.lastIndexOf('\n', end)
  if (end < text.length && atLine > end / 2) end = atLine
  const last = text.charCodeAt(end - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? end - 1 : end)
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/
const HEADING = /^ {0,3}(#{1,6})(?: |$)/
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/
const QUOTE = /^ {0,3}> ?/
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])( {1,4}(?=\S)|(?= {5})| *$)/
/** Before the content of a line. */
const QUOTES = /^(?: {0,3}> ?)+/
const ITEMS = /^(?: *(?:[-*+]|\d{1,9}[.)]) )+/
const TASK = /^\[([ xX])\] {1,4}(?=\S)/
// Only numbers: `[^a-z]` is more often a part of a pattern.
const FOOTNOTE = /^ {0,3}\[\^(\d{1,3})\]: */
const TABLE_RULE = /^\|? *:?-+:? *(?:\| *:?-+:? *)*\|?$/

function parseBlocks(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = []
  let at = 0
  while (at < lines.length) {
    const line = lines[at] ?? ''
    if (line.trim() === '') at++
    else {
      const [block, next] = parseBlock(lines, at, depth)
      blocks.push(block)
      at = next
    }
  }
  return blocks
}

type ParsedBlock = readonly [block: Block, next: number]

function parseBlock(lines: readonly string[], at: number, depth: number): ParsedBlock {
  const line = lines[at] ?? ''
  const fence = matchFence(line)
  if (fence) return parseFence(lines, at, fence)
  const heading = HEADING.exec(line)
  if (heading) return parseHeading(line, at, heading[1]?.length ?? 1, heading[0].length)
  if (RULE.test(line)) return [{ kind: 'rule' }, at + 1]
  if (depth < DEPTH_MAX && QUOTE.test(line)) return parseQuote(lines, at, depth)
  if (depth < DEPTH_MAX && ITEM.test(line)) return parseList(lines, at, depth)
  if (FOOTNOTE.test(line)) return parseFootnote(lines, at, depth)
  if (isTable(lines, at)) return parseTable(lines, at)
  return parseParagraph(lines, at, depth)
}

interface Fence {
  readonly mark: string
  readonly language: string
}

function matchFence(line: string): Fence | undefined {
  const match = FENCE.exec(line)
  const info = line.slice(match?.[0].length)
  if (!match || info.includes('`')) return undefined
  return { mark: match[1] ?? '', language: info.trim().split(' ', 1)[0] ?? '' }
}

function parseFence(lines: readonly string[], at: number, { mark, language }: Fence): ParsedBlock {
  let next = at + 1
  while (next < lines.length && !isFenceEnd(lines[next] ?? '', mark)) next++
  const indent = (lines[at] ?? '').search(/\S/)
  const text = lines.slice(at + 1, next).map((line) => line.slice(Math.min(indent, indentOf(line))))
  return [{ kind: 'code', language, text: text.join('\n') }, next + 1]
}

function isFenceEnd(line: string, mark: string): boolean {
  const text = line.trim()
  return text.length >= mark.length && text === (mark[0] ?? '').repeat(text.length) && !/^(?: {4}|\t)/.test(line)
}

function indentOf(line: string): number {
  const start = line.search(/\S/)
  return start < 0 ? line.length : start
}

function parseHeading(line: string, at: number, level: number, start: number): ParsedBlock {
  const text = line.slice(start).trim()
  let end = text.length
  while (text[end - 1] === '#') end--
  const title = end === 0 || text[end - 1] === ' ' ? text.slice(0, end) : text
  return [{ kind: 'heading', level, children: parseInline(title.trim()) }, at + 1]
}

function parseQuote(lines: readonly string[], at: number, depth: number): ParsedBlock {
  const inner: string[] = []
  let next = at
  for (; next < lines.length; next++) {
    const line = lines[next] ?? ''
    const mark = QUOTE.exec(line)
    if (!mark) break
    inner.push(line.slice(mark[0].length))
  }
  return [{ kind: 'quote', children: parseBlocks(inner, depth + 1) }, next]
}

function parseList(lines: readonly string[], at: number, depth: number): ParsedBlock {
  const first = ITEM.exec(lines[at] ?? '')
  const kindOf = (mark: string): string => mark.at(-1) ?? ''
  const kind = kindOf(first?.[2] ?? '')
  const items: Block[][] = []
  let next = at
  while (next < lines.length) {
    const line = lines[next] ?? ''
    const item = ITEM.exec(line)
    if (!item || kindOf(item[2] ?? '') !== kind || RULE.test(line)) break
    const width = item[0].length + (item[4] === '' ? 1 : 0)
    const content = line.slice(item[0].length)
    const task = TASK.exec(content)
    const inner = [content.slice(task?.[0].length)]
    next++
    for (; next < lines.length; next++) {
      const given = lines[next] ?? ''
      const below = given.search(/[^ ]|$/) < width ? expandLine(given) : given
      const isBlank = below.trim() === ''
      // A blank line belongs to the item only if the item continues after it.
      if (isBlank && indentOf(lines[next + 1] ?? '') < width) break
      if (!isBlank && indentOf(below) < width && (inner.at(-1)?.trim() === '' || startsBlock(below))) break
      inner.push(below.slice(Math.min(width, indentOf(below))))
    }
    const children = parseBlocks(inner, depth + 1)
    items.push(task ? withCheckbox(children, task[1] !== ' ') : children)
    // One blank line may separate items.
    if ((lines[next] ?? '').trim() === '' && ITEM.test(lines[next + 1] ?? '')) next++
  }
  const start = first?.[3] === undefined ? undefined : Number(first[3])
  return [{ kind: 'list', start, items }, next]
}

function withCheckbox(item: readonly Block[], isChecked: boolean): Block[] {
  const [first, ...rest] = item
  const checkbox = { kind: 'checkbox', isChecked } as const
  if (first?.kind !== 'paragraph') return [{ kind: 'paragraph', children: [checkbox] }, ...item]
  return [{ ...first, children: [checkbox, ...first.children] }, ...rest]
}

function startsBlock(line: string): boolean {
  return matchFence(line) !== undefined || [HEADING, RULE, QUOTE, ITEM, FOOTNOTE].some((start) => start.test(line))
}

function isTable(lines: readonly string[], at: number): boolean {
  const [head, rule] = [lines[at] ?? '', lines[at + 1] ?? '']
  if (!head.includes('|') || !rule.includes('|') || !rule.includes('-') || !TABLE_RULE.test(rule.trim())) return false
  return splitCells(head).length === splitCells(rule).length
}

function parseTable(lines: readonly string[], at: number): ParsedBlock {
  const head = splitCells(lines[at] ?? '')
  let next = at + 2
  while (next < lines.length && (lines[next] ?? '').includes('|')) next++
  // Short rows stay short: below a wide head, every row of one character would get thousands of cells.
  const rows = lines.slice(at + 2, next).map((line) => splitCells(line).slice(0, head.length).map(parseInline))
  const alignments = splitCells(lines[at + 1] ?? '').map(alignmentOf)
  return [{ kind: 'table', alignments, head: head.map(parseInline), rows }, next]
}

function alignmentOf(rule: string): Alignment | undefined {
  if (rule.endsWith(':')) return rule.startsWith(':') ? 'center' : 'right'
  return rule.startsWith(':') ? 'left' : undefined
}

function splitCells(line: string): string[] {
  const content = line.trim().replace(/^\|/, '')
  const parts: string[] = ['']
  for (let at = 0; at < content.length; at++) {
    const character = content[at] ?? ''
    if (character === '\\' && content[at + 1] === '|') {
      parts.push(`${parts.pop()}|`)
      at++
    } else if (character === '|') parts.push('')
    else parts.push(parts.pop() + character)
  }
  if (parts.length > 1 && parts.at(-1)?.trim() === '') parts.pop()
  return parts.map((part) => part.trim())
}

function parseParagraph(lines: readonly string[], at: number, depth: number): ParsedBlock {
  const [text, next] = readParagraph(lines, at, depth)
  return [{ kind: 'paragraph', children: parseInline(text) }, next]
}

function parseFootnote(lines: readonly string[], at: number, depth: number): ParsedBlock {
  const [text, next] = readParagraph(lines, at, depth)
  const start = FOOTNOTE.exec(text)
  return [{ kind: 'footnote', label: start?.[1] ?? '', children: parseInline(text.slice(start?.[0].length)) }, next]
}

function readParagraph(lines: readonly string[], at: number, depth: number): readonly [text: string, next: number] {
  let next = at + 1
  while (next < lines.length) {
    const line = lines[next] ?? ''
    if (line.trim() === '' || isTable(lines, next)) break
    if (interruptsParagraph(line) && (depth < DEPTH_MAX || !(QUOTE.test(line) || ITEM.test(line)))) break
    next++
  }
  const text = lines.slice(at, next).map((line) => line.trim())
  return [text.join('\n'), next]
}

/** A line of a sentence may start with "1984." or be a lone dash. */
function interruptsParagraph(line: string): boolean {
  const item = ITEM.exec(line)
  if (item && !RULE.test(line)) return (item[3] === undefined || item[3] === '1') && line.trim() !== item[2]
  return startsBlock(line)
}

interface OpenDelimiter {
  /** `*`, `**`, `_`, `__`, `~~`, `[` or `![`. */
  readonly mark: string
  readonly children: Inline[]
}

const ESCAPABLE = /[!-/:-@[-`{-~]/
const BARE_URL = /https?:\/\/[^\s<>"`]{1,2048}/y
const ANGLE_URL = /<(https?:\/\/[^\s<>]{1,2048}|mailto:[^\s<>]{1,254}|[\w.+-]{1,64}@[\w.-]{1,190})>/y
const REFERENCE = /\[\^(\d{1,3})\](?!\()/y
const TARGET = /^\(\s{0,9}(?:<([^<>\n]*)>|((?:[^\s()]|\([^\s()]*\))*))(?:\s{1,9}(?:"[^"]*"|'[^']*'))?\s{0,9}\)/
const WORD = /[\p{L}\p{N}]/u

export function parseInline(text: string): Inline[] {
  return new InlineReader(text).read()
}

/** One pass over the text with a stack of open marks. Marks that are never closed become text. */
class InlineReader {
  #text: string
  #at = 0
  #pendingText = ''
  #open: OpenDelimiter[] = [{ mark: '', children: [] }]
  /** The number of open marks of each kind, so that the stack is searched only for marks that it contains. */
  #count = new Map<string, number>()
  /** The last position of a run of backticks, by its length. */
  #lastTicks = new Map<number, number>()

  constructor(text: string) {
    this.#text = text
  }

  read(): Inline[] {
    while (this.#at < this.#text.length) this.#step()
    this.#flush()
    return flatten(this.#open)
  }

  #step(): void {
    const character = this.#text[this.#at] ?? ''
    switch (character) {
      case '\\':
        this.#escape()
        return
      case '\n':
        this.#at++
        this.#add({ kind: 'break' })
        return
      case '`':
        this.#code()
        return
      case '*':
      case '_':
      case '~':
        this.#marks(character)
        return
      case '!':
        if (this.#text[this.#at + 1] !== '[') break
        this.#push('![')
        return
      case '[':
        if (!this.#addReference()) this.#push('[')
        return
      case ']':
        this.#target()
        return
      case '<':
        if (this.#addUrl(ANGLE_URL)) return
        break
      case 'h':
        if (!WORD.test(this.#text[this.#at - 1] ?? '') && this.#addUrl(BARE_URL)) return
    }
    this.#pendingText += character
    this.#at++
  }

  #escape(): void {
    const next = this.#text[this.#at + 1] ?? ''
    this.#pendingText += ESCAPABLE.test(next) ? next : `\\${next === '\n' ? '' : next}`
    this.#at += next === '\n' || next === '' ? 1 : 2
  }

  #code(): void {
    const start = this.#at
    let length = 1
    while (this.#text[start + length] === '`') length++
    const end = this.#closingTicks(start + length, length)
    if (end < 0) {
      this.#pendingText += '`'.repeat(length)
      this.#at += length
      return
    }
    const inner = this.#text.slice(start + length, end).replaceAll('\n', ' ')
    const isPadded = inner.startsWith(' ') && inner.endsWith(' ') && inner.trim() !== ''
    this.#add({ kind: 'code', text: isPadded ? inner.slice(1, -1) : inner })
    this.#at = end + length
  }

  #closingTicks(from: number, length: number): number {
    if (this.#lastTicks.size === 0)
      for (const { 0: run, index } of this.#text.matchAll(/`+/g)) this.#lastTicks.set(run.length, index)
    // Searching after the last run of this length would take quadratic time.
    if ((this.#lastTicks.get(length) ?? -1) < from) return -1
    for (let at = this.#text.indexOf('`', from); at >= 0; ) {
      let end = at
      while (this.#text[end] === '`') end++
      if (end - at === length) return at
      at = this.#text.indexOf('`', end)
    }
    return -1
  }

  #marks(character: string): void {
    const start = this.#at
    let length = 1
    while (this.#text[start + length] === character) length++
    this.#at += length
    const [before, after] = [this.#text[start - 1] ?? ' ', this.#text[this.#at] ?? ' ']
    // An underscore inside a word is text.
    const inWord = character === '_' && WORD.test(before) && WORD.test(after)
    const isMark = character === '~' ? length === 2 : length <= 3
    const [canOpen, canClose] = [/\S/.test(after), /\S/.test(before)]
    if (!isMark || inWord || (!canOpen && !canClose)) {
      this.#pendingText += character.repeat(length)
      return
    }
    for (let left = length; left > 0; ) {
      const closing = canClose ? this.#closing(character, left) : 0
      if (closing > 0) this.#close(character.repeat(closing))
      const used = closing || (left > 1 ? 2 : 1)
      if (closing === 0) {
        if (canOpen) this.#enter(character.repeat(used))
        else this.#pendingText += character.repeat(used)
      }
      left -= used
    }
  }

  /** How many of these characters close a mark: the innermost open one wins. */
  #closing(character: string, left: number): number {
    const isOpen = (mark: string): boolean => (this.#count.get(mark) ?? 0) > 0
    const [one, two] = [isOpen(character), left > 1 && isOpen(character + character)]
    if (!one || !two) return two ? 2 : one && character !== '~' ? 1 : 0
    for (let at = this.#open.length - 1; at > 0; at--) {
      const mark = this.#open[at]?.mark
      if (mark === character) return 1
      if (mark === character + character) return 2
    }
    return 0
  }

  #push(mark: string): void {
    this.#at += mark.length
    this.#enter(mark)
  }

  #enter(mark: string): void {
    if (this.#open.length > OPEN_MAX) {
      this.#pendingText += mark
      return
    }
    this.#flush()
    this.#open.push({ mark, children: [] })
    this.#count.set(mark, (this.#count.get(mark) ?? 0) + 1)
  }

  #close(mark: string): void {
    const children = this.#pop((open) => open.mark === mark)
    const kind = mark === '~~' ? 'strike' : mark.length === 2 ? 'strong' : 'emphasis'
    if (children.length > 0) this.#add({ kind, children })
    else this.#pendingText += mark + mark
  }

  /** Removes the innermost such mark from the stack and returns its content. */
  #pop(matches: (open: OpenDelimiter) => boolean): Inline[] {
    this.#flush()
    const found = this.#open.findLastIndex((open, at) => at > 0 && matches(open))
    const [first, ...inner] = this.#open.splice(found)
    for (const { mark } of first ? [first, ...inner] : inner)
      this.#count.set(mark, Math.max((this.#count.get(mark) ?? 1) - 1, 0))
    return first ? flatten([{ mark: '', children: first.children }, ...inner]) : []
  }

  #target(): void {
    this.#at++
    const open = (this.#count.get('[') ?? 0) + (this.#count.get('![') ?? 0)
    if (open === 0) {
      this.#pendingText += ']'
      return
    }
    const mark = this.#open.findLast(({ mark }) => mark === '[' || mark === '![')?.mark ?? '['
    const children = this.#pop((one) => one.mark === mark)
    const match = TARGET.exec(this.#text.slice(this.#at, this.#at + TARGET_MAX))
    const href = safeUrl(match?.[1] ?? match?.[2] ?? '')
    if (match && href) {
      this.#at += match[0].length
      // An image becomes a link, because loading it would reveal the reader to its server.
      const content = children.length > 0 ? withoutLinks(children) : [{ kind: 'text', text: href } as const]
      this.#add({ kind: 'link', href, children: content })
      // A link cannot contain another: brackets around this one are text.
      if (mark === '[') for (const around of ['[', '![']) this.#count.set(around, 0)
      return
    }
    this.#pendingText += mark
    for (const child of children) this.#add(child)
    this.#pendingText += ']'
  }

  #addReference(): boolean {
    REFERENCE.lastIndex = this.#at
    const match = REFERENCE.exec(this.#text)
    if (!match) return false
    this.#add({ kind: 'reference', label: match[1] ?? '' })
    this.#at += match[0].length
    return true
  }

  #addUrl(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at
    const match = pattern.exec(this.#text)
    if (!match) return false
    const url = match[1] ?? withoutPunctuation(match[0])
    const source = match[1] === undefined ? url : match[0]
    const href = safeUrl(/^(https?|mailto):/i.test(url) ? url : `mailto:${url}`)
    // An unsafe URL becomes text as a whole: matching its parts again would take quadratic time.
    if (href) this.#add({ kind: 'link', href, children: [{ kind: 'text', text: url }] })
    else this.#pendingText += source
    this.#at += source.length
    return true
  }

  #add(inline: Inline): void {
    this.#flush()
    this.#open.at(-1)?.children.push(inline)
  }

  #flush(): void {
    if (this.#pendingText === '') return
    const text = this.#pendingText
    this.#pendingText = ''
    this.#open.at(-1)?.children.push({ kind: 'text', text })
  }
}

function flatten(open: readonly OpenDelimiter[]): Inline[] {
  return open.flatMap(({ mark, children }): Inline[] => (mark ? [{ kind: 'text', text: mark }, ...children] : children))
}

function withoutLinks(children: readonly Inline[]): Inline[] {
  return children.flatMap((child): readonly Inline[] => {
    if (child.kind === 'link') return withoutLinks(child.children)
    return 'children' in child ? [{ ...child, children: withoutLinks(child.children) }] : [child]
  })
}

/** Without the punctuation and the brackets of the sentence around it. */
function withoutPunctuation(url: string): string {
  const hasBracket = url.includes('(')
  let end = url.length
  for (;;) {
    const last = url[end - 1] ?? ''
    if (/[.,;:!?'*_~\]]/.test(last) || (last === ')' && !hasBracket)) end--
    else return url.slice(0, end)
  }
}

/** The URL if it is absolute and safe to follow. A relative one would contain the secret URL of the link. */
export function safeUrl(url: string): string | undefined {
  if (!/^(https?:\/\/[^/]|mailto:[^/])/i.test(url) || /[\s\u0000-\u001f\u007f]/.test(url)) return undefined
  return URL.canParse(url) ? url : undefined
}
