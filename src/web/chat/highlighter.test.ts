import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { suite, test } from 'node:test'
import { createContext, Script } from 'node:vm'
import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { lazy } from '../../lib/lazy.ts'
import { highlighterScript } from './highlighter.ts'

type Tokenize = (code: string, language: string) => [kind: string, text: string][]

const tokenizer = lazy((): Tokenize => {
  const element: { tokenize?: Tokenize } = {}
  new Script(highlighterScript().code).runInContext(createContext({ document: { currentScript: element } }))
  return element.tokenize ?? assert.fail('the script set no function')
})

const LANGUAGES =
  'c cpp csharp css dockerfile go graphql hcl html java javascript json kotlin php powershell python ruby rust shell sql swift toml typescript yaml'.split(
    ' ',
  )
const PIECES = [
  ...[
    'a',
    'A',
    '0',
    '0x',
    '1.',
    'if ',
    '"',
    "'",
    '`',
    '\\',
    '\\"',
    '`${',
    '${',
    '/',
    '//',
    '/*',
    '*/',
    '/[',
    '=/',
    '=/[',
    '=/[a]',
    '=/a',
  ],
  ...[
    '(',
    ')',
    '{',
    '[',
    ']',
    '<',
    '<a ',
    '<a b="',
    '<a>',
    '</',
    '<!--',
    '-->',
    '<?',
    '>',
    ':',
    '"a":',
    '"a" ',
    '#',
    '#a',
    '--',
    '@media ',
  ],
  ...['=', '=begin', '=end', '\n', '\n=', ' ', '\t', '\r', '.', ';', "'a", "'\\", 'é', '😀', '\u0000'],
]

suite('the highlighter', () => {
  test('is small, and its integrity is that of its text', () => {
    const { code, integrity } = highlighterScript()
    assert.equal(integrity, `sha256-${createHash('sha256').update(code).digest('base64')}`)
    assert.ok(brotliCompressSync(code).length < 8_000, String(brotliCompressSync(code).length))
  })

  test('finds keywords, strings, numbers, properties and comments', () => {
    const shown = (language: string, code: string): string =>
      tokenizer()(code, language)
        .map(([kind, text]) => (kind ? `${kind}(${text})` : text))
        .join('')
    const cases: Record<string, [code: string, tokens: string]> = {
      typescript: [
        "const a: string = b / 2 // 'c'\nreturn a.c(/['\"]/g, `d`)",
        "keyword(const) a: keyword(string) = b / class(2) comment(// 'c'\n)keyword(return) a.property(c)(string(/['\"]/g), string(`d`))",
      ],
      python: ["if a: return 'b' # c", "keyword(if) a: keyword(return) string('b') comment(# c)"],
      json: ['{"a": [1, true]}', '{property("a"): [class(1), keyword(true)]}'],
      html: [
        `<p class="a">don't <b>c</b><!-- d --> 1 < 2`,
        `keyword(<p) property(class)=string("a")keyword(>)don't keyword(<b)keyword(>)ckeyword(</b)keyword(>)comment(<!-- d -->) 1 keyword(<) 2`,
      ],
      unknown: ['if a', 'if a'],
    }
    for (const [language, [code, tokens]] of Object.entries(cases)) assert.equal(shown(language, code), tokens)
  })

  test('changes no character of any code', () => {
    const code = fc.array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ maxLength: 3 })), { maxLength: 40 })
    fc.assert(
      fc.property(code, fc.constantFrom(...LANGUAGES), (parts, language) => {
        const text = parts.join('')
        const tokens = tokenizer()(text, language)
        assert.equal(tokens.map(([, part]) => part).join(''), text)
        assert.ok(tokens.every(([kind]) => /^(keyword|string|class|property|comment)?$/.test(kind)))
      }),
    )
  })

  test('takes linear time for any code', () => {
    const filled = (piece: string, size: number): string => piece.repeat(Math.ceil(size / piece.length))
    // The others have the same lexer with other keywords and comments.
    for (const language of ['css', 'html', 'javascript', 'json', 'php', 'powershell', 'ruby', 'rust'])
      for (const piece of PIECES) {
        const factor = growth(
          200,
          (size) => filled(piece, size),
          (text) => tokenizer()(text, language),
        )
        assert.ok(factor < LINEAR, `${language}, ${JSON.stringify(piece)}: ${factor.toFixed(1)} for 32 times the code`)
      }
  })
})
