import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { type Block, type Inline, parseInline, parseMarkdown, safeUrl, truncateText } from './markdown.ts'

/** A tree in one line: `strong(a) text`. */
const inline = (nodes: readonly Inline[]): string => nodes.map(formatInline).join('')
function formatInline(node: Inline): string {
  if (node.kind === 'text') return node.text
  if (node.kind === 'break') return '⏎'
  if (node.kind === 'code') return `code(${node.text})`
  if (node.kind === 'checkbox') return node.isChecked ? '☑' : '☐'
  if (node.kind === 'reference') return `ref(${node.label})`
  return `${node.kind}(${node.kind === 'link' ? `${node.href} ` : ''}${inline(node.children)})`
}
const blocks = (nodes: readonly Block[]): string => nodes.map(formatBlock).join(' ')
function formatBlock(node: Block): string {
  switch (node.kind) {
    case 'paragraph':
      return `p(${inline(node.children)})`
    case 'heading':
      return `h${node.level}(${inline(node.children)})`
    case 'code':
      return `pre(${node.language}|${node.text})`
    case 'quote':
      return `quote(${blocks(node.children)})`
    case 'list':
      return `${node.start ?? ''}list(${node.items.map(blocks).join('; ')})`
    case 'table':
      return `table${node.alignments.map((one) => `,${one ?? ''}`).join('')}(${[node.head, ...node.rows].map((row) => row.map(inline).join('|')).join('; ')})`
    case 'footnote':
      return `note(${node.label} ${inline(node.children)})`
    case 'rule':
      return 'rule'
  }
}

const INLINE: Record<string, string> = {
  'plain text': 'plain text',
  '*a* and _b_': 'emphasis(a) and emphasis(b)',
  '**a *b* c**': 'strong(a emphasis(b) c)',
  '*a **b** c*': 'emphasis(a strong(b) c)',
  '***a***': 'strong(emphasis(a))',
  '~~a~~ ~b~': 'strike(a) ~b~',
  'snake_case_name and 2 * 3 * 4': 'snake_case_name and 2 * 3 * 4',
  '**open and *more': '**open and *more',
  '\\*a\\* C:\\dir': '*a* C:\\dir',
  '`a *b* <c>` ``x`y``': 'code(a *b* <c>) code(x`y)',
  '`open': '`open',
  'a\nb': 'a⏎b',
  '[a *b*](https://c.d "e")': 'link(https://c.d a emphasis(b))',
  '[a](https://c.d/e_(f))': 'link(https://c.d/e_(f) a)',
  '![a](https://c.d/e.png)': 'link(https://c.d/e.png a)',
  '[a](javascript:alert(1))': '[a](javascript:alert(1))',
  '[a](/chat/x) [b](data:text/html,x)': '[a](/chat/x) [b](data:text/html,x)',
  '[1] and [ ] and ]': '[1] and [ ] and ]',
  '[^a-z] [^] [^1234] [^1': '[^a-z] [^] [^1234] [^1',
  '[^1](https://a.b) [c[^2]](https://d.e)': 'link(https://a.b ^1) link(https://d.e cref(2))',
  '[a [b](https://c.d) e](https://f.g)': '[a link(https://c.d b) e](link(https://f.g https://f.g))',
  '[![a](https://b.c/d.png)](https://e.f)': 'link(https://e.f a)',
  '*[a [b](https://c.d)* [e](https://f.g)': 'emphasis([a link(https://c.d b)) link(https://f.g e)',
  'https://[a *b*': 'https://[a emphasis(b)',
  'see https://a.b/c_d_e. (https://f.g)':
    'see link(https://a.b/c_d_e https://a.b/c_d_e). (link(https://f.g https://f.g))',
  '<https://a.b> <c@d.e> <b>': 'link(https://a.b https://a.b) link(mailto:c@d.e c@d.e) <b>',
}

const BLOCKS: Record<string, string> = {
  'a\nb\n\nc': 'p(a⏎b) p(c)',
  '# a #\n### b': 'h1(a) h3(b)',
  '#a': 'p(#a)',
  '```js\nif (a < b) {\n\n```\nc': 'pre(js|if (a < b) {\n) p(c)',
  '~~~\n```\n~~~': 'pre(|```)',
  '```\nopen': 'pre(|open)',
  '> a\n> > b\nc': 'quote(p(a) quote(p(b))) p(c)',
  '- a\n- b\n  - c\n\n  d\n- e': 'list(p(a); p(b) list(p(c)) p(d); p(e))',
  '3. a\n4. b': '3list(p(a); p(b))',
  '- a\n\n- b\n\nc': 'list(p(a); p(b)) p(c)',
  'In\n1984. it was': 'p(In⏎1984. it was)',
  'a\n- b': 'p(a) list(p(b))',
  '- a\n  ```\n  x\n    y\n  ```': 'list(p(a) pre(|x\n  y))',
  '| a | b |\n|---|:-:|\n| 1 | 2 \\| 3 |\n\nc': 'table,,center(a|b; 1|2 | 3) p(c)',
  'a | b': 'p(a | b)',
  '---\n***': 'rule rule',
  '~~~ js more\nx\n~~~~': 'pre(js|x)',
  '~~~ a`b': 'p(~~~ a`b)',
  '| a | b |\n|-|-|\n| 1 |\n| 1 | 2 | 3 |': 'table,,(a|b; 1; 1|2)',
  'a | b | c | d\n:-- | :-: | --: | -\n1 | 2': 'table,left,center,right,(a|b|c|d; 1|2)',
  '- [ ] a\n- [x] *b*\n- [X] c\n  d\n- [y] e\n- [ ]': 'list(p(☐a); p(☑emphasis(b)); p(☑c⏎d); p([y] e); p([ ]))',
  '1. [x] # a\n2. [ ] b\n   - [x] c': '1list(p(☑) h1(a); p(☐b) list(p(☑c)))',
  '[ ] a\n\n- a [x] b\n- [x](https://c.d)': 'p([ ] a) list(p(a [x] b); p(link(https://c.d x)))',
  'a[^1] b[^22].\n\n[^1]: *c*\nd\n[^22]:e': 'p(aref(1) bref(22).) note(1 emphasis(c)⏎d) note(22 e)',
  'a\n[^1]: b\n- c\n[^2]: d': 'p(a) note(1 b) list(p(c)) note(2 d)',
  '<script>alert(1)</script>': 'p(<script>alert(1)</script>)',
  'a\r\nb': 'p(a⏎b)',
}

test('tabs stay in code, and are four spaces elsewhere', () => {
  const shown = (text: string): string => blocks(parseMarkdown(text))
  assert.equal(shown('```make\na:\n\tb\n```\n\n-\ta\tb'), 'pre(make|a:\n\tb) list(p(a    b))')
  assert.equal(shown('1. a\n   ```\n   \tb\n\tc\n   ```\n\td'), '1list(p(a) pre(|\tb\n c) p(d))')
  assert.equal(shown('- ```\n  \ta\n  ```\n\t- b'), 'list(pre(|\ta) list(p(b)))')
  assert.equal(shown('> ```\n> \ta\n> ```\n> -\tb'), 'quote(pre(|\ta) list(p(b)))')
  assert.equal(shown('> ```\n> \ta\n-\tb\tc'), 'quote(pre(|\ta)) list(p(b    c))')
  assert.equal(shown('```\na\n\t```\nb'), 'pre(|a\n\t```\nb)')
})

suite('Markdown', () => {
  for (const [text, tree] of Object.entries(INLINE))
    test(`parses ${JSON.stringify(text)} as inline text`, () => assert.equal(inline(parseInline(text)), tree))
  for (const [text, tree] of Object.entries(BLOCKS))
    test(`parses ${JSON.stringify(text)} as blocks`, () => assert.equal(blocks(parseMarkdown(text)), tree))

  test('parses any text into a tree of limited depth with safe links', () => {
    fc.assert(
      fc.property(marked(), (text) => {
        for (const { node, depth } of nodesOf(parseMarkdown(text))) {
          assert.ok(depth < 200)
          if (node.kind === 'link') assert.equal(safeUrl(node.href), node.href)
        }
      }),
    )
  })

  test('keeps text without marks', () => {
    const word = fc.stringMatching(/^[a-gi-z\u05d0-\u05ea\u4e00-\u4e20]{1,12}$/)
    fc.assert(
      fc.property(fc.array(word, { minLength: 1 }), (words) => {
        assert.equal(blocks(parseMarkdown(words.join(' '))), `p(${words.join(' ')})`)
      }),
    )
  })

  test('parses 16 levels of marks; deeper ones are text', () => {
    const marks = (depth: number) => Array.from({ length: depth }, (_, index) => (index % 2 ? '**' : '*'))
    const nested = (depth: number) => `${marks(depth).join('a ')}b${marks(depth).reverse().join(' a')}`
    const depthOf = (text: string) => Math.max(...[...nodesOf(parseMarkdown(text))].map(({ depth }) => depth))
    assert.deepEqual(
      [1, 15, 16].map((depth) => depthOf(nested(depth))),
      [2, 16, 17],
    )
    for (const depth of [17, 18, 500]) assert.ok(depthOf(nested(depth)) <= 17)
  })

  test('parses the first 50,000 characters and shows the rest as code', () => {
    const text = '*a*\n'.repeat(12_500)
    assert.ok(parseMarkdown(text).every(({ kind }) => kind === 'paragraph'))
    assert.deepEqual(parseMarkdown(`${text}*b*`).at(-1), { kind: 'code', language: '', text: '\n*b*' })
    assert.equal(blocks(parseMarkdown('*a* *b*', 3)), 'p(emphasis(a)) pre(| *b*)')
    assert.equal(blocks(parseMarkdown('*a*', 0)), 'pre(|*a*)')
  })
})

suite('parses in linear time', () => {
  const timesOf = (make: (size: number) => string): number => growth(750, make, (text) => parseMarkdown(text))
  const filled = (piece: string, size: number): string => piece.repeat(Math.ceil(size / piece.length))

  for (const [name, make] of Object.entries({
    'a fence with blanks and a backtick': (size: number) => `~~~${' '.repeat(size)}\``,
    'a fence of tildes and a backtick': (size: number) => `${'~'.repeat(size)}\``,
    'fences with blanks': (size: number) => filled(`~~~${' '.repeat(97)}\`\n`, size),
    'a table as wide as it is long': (size: number) =>
      `${'|a'.repeat(size / 8)}|\n${'|-'.repeat(size / 8)}|\n${'|\n'.repeat(size / 4)}`,
    'heads with the wrong rule': (size: number) => filled(`${'|a'.repeat(40)}|\n${'|-'.repeat(41)}|\n`, size),
    'brackets around many links': (size: number) => '['.repeat(16) + filled('[a](https://b) ', size) + ']'.repeat(16),
    'nested images': (size: number) => filled(`${'!['.repeat(15)}a${'](https://b)'.repeat(15)}`, size),
    'runs of backticks of all lengths': (size: number) =>
      Array.from({ length: Math.sqrt(size * 2) }, (_, length) => '`'.repeat(length)).join(' '),
    'a nested list': (size: number) =>
      Array.from({ length: Math.sqrt(size * 2) }, (_, depth) => `${' '.repeat(depth)}- a`).join('\n'),
    'nested quotes': (size: number) =>
      Array.from({ length: Math.sqrt(size * 2) }, (_, depth) => `${'>'.repeat(depth)} a`).join('\n'),
    'an unclosed link target': (size: number) => `[a](${filled('(b', size)}`,
    'a rule with text after it': (size: number) => `${filled('- ', size)}x`,
    'a heading with marks at its end': (size: number) => `# ${filled('# ', size)}#`,
  }))
    test(name, () => assertLinear(timesOf(make)))

  const PIECES = [
    ...['*', '*a ', '**a', '***a', '_a ', '__a', '~~a ', '~', '*a **b _c ', '*_', 'a*a', 'a_b'],
    ...['[', '[b', '[b](https://c', '[b](https://c)', '[](', '[](<', '[](a "', '[a](b (c', '![', ']', '](', '[x][y]'],
    ...['`', '`a``b', '`[', '```\n', '```a\n', '~~~\n', '~~~ `\n'],
    ...['> ', '>', '> a\n', '> - ', '- ', '- a\n', '  - a\n', '1. ', '1. a\n', '- - -\n', '_ _ _x\n', '+\n'],
    ...['- [ ] a\n', '- [x] ', '[ ] ', '[^1]', '[^1', '[^1](', '[^1]: ', '[^1]: a\n', '|:-:', 'a|b\n:-|-:\n'],
    ...['|', '|-', '|a|\n', '|-|\n', '|\n|-\n', 'a|b\n-|-\n', '\\|'],
    ...[
      '\\',
      '<',
      '<a@',
      '<https://a',
      '<https://a>',
      'https://a',
      'https://[',
      'https://a... ',
      'h',
      '&amp;',
      '&#',
      '<a>',
    ],
    ...['# ', '#', '---', '=\n', ' ', '\n', 'a\n', 'a\n\n', '    a\n', '\t', '\r', '\u0000', '😀', '"', '(', ')'],
  ]

  for (const end of ['', '*', ']', '](https://c)', '`', '|', '\n|-|'])
    test(`each mark repeated, then ${JSON.stringify(end)}`, () => {
      for (const piece of PIECES)
        assertLinear(
          timesOf((size) => filled(piece, size / 2) + filled(end || piece, size / 2)),
          piece,
        )
    })

  test('random repeated marks', () => {
    const piece = fc
      .array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ maxLength: 2 })), { minLength: 1, maxLength: 5 })
      .map((parts) => parts.join('') || ' ')
    fc.assert(
      fc.property(piece, piece, (first, second) => {
        assertLinear(timesOf((size) => filled(first, size / 2) + filled(second, size / 2)))
      }),
      { numRuns: 60, endOnFailure: true },
    )
  })
})

function assertLinear(times: number, what = ''): void {
  assert.ok(times < LINEAR, `${JSON.stringify(what)} takes ${times.toFixed(1)} times as long for 32 times the text`)
}

test('accepts absolute http, https and mailto URLs only', () => {
  for (const url of ['http://a', 'https://a.b/c?d=e#f', 'HTTPS://A', 'mailto:a@b.c']) assert.equal(safeUrl(url), url)
  for (const url of [
    'javascript:alert(1)',
    ' https://a',
    'java\nscript:x',
    'data:text/html,x',
    'vbscript:x',
    '/a',
    '//a',
    'a',
    '',
    'http://',
    'https:///a',
    'blob:https://a/b',
    'https://a b',
  ])
    assert.equal(safeUrl(url), undefined, url)
})

test('truncates after a line, never inside a character', () => {
  assert.equal(truncateText('a\nb', 100, 10), 'a\nb')
  assert.equal(truncateText('a\nb\nc\nd', 100, 2), 'a\nb')
  assert.equal(truncateText('abcdefgh', 4, 2), 'abcd')
  assert.equal(truncateText('abcdef\nxyz', 8, 9), 'abcdef')
  assert.equal(truncateText('abc😀', 4, 9), 'abc')
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      fc.nat(50),
      fc.integer({ min: 1, max: 9 }),
      (text, characters, lines) => {
        const cut = truncateText(text, characters, lines)
        assert.ok(text.startsWith(cut) && cut.length <= characters && cut.split('\n').length <= lines)
      },
    ),
  )
})

/** Text full of Markdown syntax. */
function marked(): fc.Arbitrary<string> {
  const pieces = [
    '*',
    '**',
    '_',
    '`',
    '```',
    '~~',
    '[',
    ']',
    '](',
    ')',
    '!',
    '<',
    '>',
    '"',
    '|',
    '-',
    '---',
    '#',
    '\n',
    '  ',
    '1.',
    '- [x] ',
    '[^1]',
    '[^1]: ',
    '|:-:',
    '\\',
    'a',
    'é',
    'https://x.y',
    'javascript:alert(1)',
    '<img src=x onerror=alert(1)>',
    '</script>',
    '\u202e',
  ]
  return fc
    .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 3 })), { maxLength: 60 })
    .map((all) => all.join(''))
}

function* nodesOf(tree: readonly (Block | Inline)[], depth = 0): Generator<{ node: Block | Inline; depth: number }> {
  for (const node of tree) {
    yield { node, depth }
    if ('children' in node) yield* nodesOf(node.children, depth + 1)
    if (node.kind === 'list') for (const item of node.items) yield* nodesOf(item, depth + 1)
    if (node.kind === 'table') for (const cell of [node.head, ...node.rows].flat()) yield* nodesOf(cell, depth + 1)
  }
}
