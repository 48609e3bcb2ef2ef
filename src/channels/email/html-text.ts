// Text of HTML mail, for agents: paragraphs, lists, quotes and the targets of links. One pass; markup that is not closed is text.

const ENTITIES: Readonly<Record<string, string>> = {
  ...{ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', ensp: ' ', emsp: ' ', thinsp: ' ', shy: '' },
  ...{
    zwnj: '',
    zwj: '',
    ndash: '–',
    mdash: '—',
    hellip: '…',
    bull: '•',
    middot: '·',
    euro: '€',
    pound: '£',
    copy: '©',
  },
  ...{
    reg: '®',
    trade: '™',
    deg: '°',
    times: '×',
    laquo: '«',
    raquo: '»',
    lsquo: '‘',
    rsquo: '’',
    ldquo: '“',
    rdquo: '”',
  },
  ...{ auml: 'ä', ouml: 'ö', uuml: 'ü', Auml: 'Ä', Ouml: 'Ö', Uuml: 'Ü', szlig: 'ß', eacute: 'é', egrave: 'è' },
  ...{ agrave: 'à', ccedil: 'ç', ntilde: 'ñ', ecirc: 'ê', aring: 'å', oslash: 'ø', aelig: 'æ' },
}
/** Their content is not shown. */
const HIDDEN_TAGS = ['style', 'script', 'head', 'title']
const PARAGRAPHS = new Set('p h1 h2 h3 h4 h5 h6 ul ol table blockquote pre hr'.split(' '))
const BLOCKS = new Set('div tr li section article header footer center dl dt dd form address'.split(' '))
const QUOTE_MAX = 20

export function htmlToText(html: string): string {
  const reader = new HtmlReader()
  // Of the same length: other letters may become two.
  const lower = html.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
  let at = 0
  while (at < html.length) {
    const open = html.indexOf('<', at)
    if (open < 0) break
    reader.text(html.slice(at, open))
    const end = endOfMarkup(html, lower, open)
    if (end === undefined) {
      at = open
      break
    }
    if (end === open) reader.text('<')
    else if (!html.startsWith('<!', open)) reader.tag(html.slice(open + 1, end - 1))
    at = end === open ? open + 1 : end
    const hidden = end === open ? undefined : HIDDEN_TAGS.find((tag) => isTag(lower, open, tag))
    if (hidden !== undefined) {
      const close = lower.indexOf(`</${hidden}`, at)
      at = close < 0 ? html.length : close
    }
  }
  reader.text(html.slice(at))
  return reader.end()
}

/** The same position if it is a plain "<"; undefined if the markup has no end. */
function endOfMarkup(html: string, lower: string, open: number): number | undefined {
  const isComment = html.startsWith('<!--', open)
  if (!isComment && !/[a-z/!?]/.test(lower.charAt(open + 1))) return open
  const end = html.indexOf(isComment ? '-->' : '>', open)
  return end < 0 ? undefined : end + (isComment ? 3 : 1)
}

function isTag(lower: string, open: number, name: string): boolean {
  return lower.startsWith(name, open + 1) && !/[a-z0-9]/.test(lower.charAt(open + 1 + name.length))
}

class HtmlReader {
  readonly #lines: string[] = []
  /** Of the line that is being read: joining them at each tag would take quadratic time. */
  #pieces: string[] = []
  #quotes = 0
  #isPre = false
  #isBlankDue = false
  /** Of the last line. */
  #lastQuotes = 0
  /** `start`: the piece that it begins with. */
  #link: { readonly href: string; readonly start: number } | undefined

  text(html: string): void {
    const text = decodeEntities(html)
    if (!this.#isPre) this.#add(text.replace(/[ \t\r\n\f]+/g, ' '))
    else
      for (const [at, line] of text.split('\n').entries()) {
        if (at > 0) this.#break()
        if (line !== '') this.#pieces.push(line)
      }
  }

  tag(markup: string): void {
    const isEnd = markup.startsWith('/')
    const [name = ''] = /^[a-z0-9]*/i.exec(markup.slice(isEnd ? 1 : 0)) ?? []
    const tag = name.toLowerCase()
    if (tag === 'br') this.#break(true)
    else if (tag === 'a') this.#anchor(isEnd ? undefined : hrefOf(markup))
    else if (tag === 'td' || tag === 'th') this.#add(' ')
    else if (PARAGRAPHS.has(tag)) this.#paragraph(tag, isEnd)
    else if (BLOCKS.has(tag)) {
      this.#break()
      if (tag === 'li' && !isEnd) this.#pieces.push('- ')
    }
  }

  end(): string {
    this.#break()
    return this.#lines.join('\n').trim()
  }

  #paragraph(tag: string, isEnd: boolean): void {
    this.#break()
    if (tag === 'blockquote' && isEnd) this.#quotes = Math.max(0, this.#quotes - 1)
    this.#isBlankDue = true
    if (tag === 'blockquote' && !isEnd) this.#quotes++
    if (tag === 'pre') this.#isPre = !isEnd
    if (tag === 'hr') this.#push('---')
  }

  /** Blanks follow no other ones. */
  #add(text: string): void {
    const shown = this.#pieces.at(-1)?.endsWith(' ') === false ? text : text.trimStart()
    if (shown !== '') this.#pieces.push(shown)
  }

  #anchor(href: string | undefined): void {
    const link = this.#link
    this.#link = href === undefined ? undefined : { href, start: this.#pieces.length }
    if (!link || href !== undefined) return
    const shown = this.#pieces.slice(link.start).join('').trim()
    if (shown !== '' && shown !== link.href) this.#pieces.push(` (${link.href})`)
  }

  #break(isKept = false): void {
    const line = this.#pieces.join('').trimEnd()
    this.#pieces = []
    if (this.#link) this.#link = { ...this.#link, start: 0 }
    if (line !== '') this.#push(line)
    else if (isKept) this.#isBlankDue = true
  }

  #push(line: string): void {
    const quotes = Math.min(this.#quotes, QUOTE_MAX)
    if (this.#isBlankDue && this.#lines.length > 0)
      this.#lines.push('> '.repeat(Math.min(quotes, this.#lastQuotes)).trimEnd())
    this.#isBlankDue = false
    this.#lastQuotes = quotes
    this.#lines.push('> '.repeat(quotes) + line)
  }
}

function hrefOf(markup: string): string | undefined {
  const [, quoted, single, bare] = /\shref=(?:"([^"]{1,2048})"|'([^']{1,2048})'|([^\s"'>]{1,2048}))/i.exec(markup) ?? []
  const href = decodeEntities(quoted ?? single ?? bare ?? '').trim()
  return /^https?:\/\//i.test(href) ? href : undefined
}

function decodeEntities(text: string): string {
  return text.replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|[a-z]{2,8});/gi, (all, name: string) => {
    if (!name.startsWith('#')) return Object.hasOwn(ENTITIES, name) ? (ENTITIES[name] ?? all) : all
    const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1))
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : all
  })
}
