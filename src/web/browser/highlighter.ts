// Entry of `highlight.js`: splits code into tokens by the lexer of sugar-high. Its script element receives the function.

export type CodeToken = readonly [kind: string, text: string]
export type Tokenizer = (code: string, language: string) => readonly CodeToken[]

interface LexerOptions {
  readonly keywords?: ReadonlySet<string>
  readonly tokenize?: undefined
  readonly [option: string]: unknown
}

type LexerToken = readonly [type: number, text: string]

/** Modules of sugar-high by their path; see `chat/highlighter.ts`. */
declare const LIBRARY: Readonly<Record<string, LexerOptions>> & {
  readonly core: { tokenize(code: string, options: LexerOptions): readonly LexerToken[] }
  readonly shared: { readonly TokenTypes: readonly string[] }
}

const JAVASCRIPT =
  'as async await break case catch class const continue debugger default delete do else export extends false finally for from function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while with yield'
const TYPESCRIPT = `${JAVASCRIPT} abstract any asserts bigint boolean declare enum implements infer interface is keyof namespace never number object override private protected public readonly satisfies string symbol type unknown`
/** Limited in length, because an unclosed one is searched at each slash. */
const PATTERN = /\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n]){1,200}\]|[^/\\\n[]){1,200}\/[a-z]{0,8}/y
const BEFORE_PATTERN = '=(,:;!&|?{}[\n'

function languageOf(name: string): LexerOptions | undefined {
  if (name === 'javascript') return scriptOptions(JAVASCRIPT)
  if (name === 'typescript') return scriptOptions(TYPESCRIPT)
  return LIBRARY[`lang/${name}`]
}

function scriptOptions(keywords: string): LexerOptions {
  return {
    ...LIBRARY['lang/c'],
    typeKeywords: undefined,
    keywords: new Set(keywords.split(' ')),
    templateStrings: true,
    onLiteral: patternLength,
  }
}

/** After an operator a slash begins a regular expression, in which quotes are no strings. */
function patternLength(character: string, index: number, code: string): number {
  if (character !== '/') return 0
  let before = index - 1
  while (code[before] === ' ') before--
  if (before >= 0 && !BEFORE_PATTERN.includes(code[before] ?? '')) return 0
  PATTERN.lastIndex = index
  return PATTERN.exec(code)?.[0].length ?? 0
}

const MARKUP = /<!--(?:(?!-->)[\s\S])*(?:-->)?|<[/!?]?[\w:-]*|[^<]+/y
const ATTRIBUTES = /[\w:.@-]+|"[^"]*"?|'[^']*'?|[?/]?>|[\s\S]/y

/** HTML and XML: the lexer would take an apostrophe in the text for the beginning of a string. */
function markupTokens(code: string): CodeToken[] {
  const tokens: CodeToken[] = []
  let isInTag = false
  for (let at = 0; at < code.length; ) {
    const pattern = isInTag ? ATTRIBUTES : MARKUP
    pattern.lastIndex = at
    const text = pattern.exec(code)?.[0] || (code[at] ?? '')
    tokens.push([isInTag ? attributeKind(text) : markupKind(text), text])
    if (isInTag ? text.endsWith('>') && text.length < 3 : /^<[^!]/.test(text)) isInTag = !isInTag
    at += text.length
  }
  return tokens
}

function markupKind(text: string): string {
  if (text.startsWith('<!--')) return 'comment'
  return text.startsWith('<') ? 'keyword' : ''
}

function attributeKind(text: string): string {
  if (/^["']/.test(text)) return 'string'
  if (text.endsWith('>')) return 'keyword'
  return /^[\w:.@-]/.test(text) ? 'property' : ''
}

const KINDS = ['keyword', 'string', 'class', 'property', 'comment']

const splitCode: Tokenizer = (code, name) => {
  if (name === 'html') return markupTokens(code)
  const options = languageOf(name)
  if (!options) return [['', code]]
  const types = LIBRARY.shared.TokenTypes
  // CSS would have a lexer of its own, which can take quadratic time.
  const tokens = LIBRARY.core.tokenize(code, { ...options, tokenize: undefined })
  return tokens.map(([type, text]) => [KINDS.find((kind) => kind === types[type]) ?? '', text])
}

Reflect.set(document.currentScript ?? globalThis, 'tokenize', splitCode)
