import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parse, parseDocument, stringify } from 'yaml'
import { ManifestErrors } from './manifest-errors.ts'
import { type ManifestChunk, splitManifest } from './yaml-splitter.ts'

function chunksOf(text: string, batchLength?: number): ManifestChunk[] {
  const errors = new ManifestErrors()
  const chunks = [...splitManifest(text, errors, batchLength)]
  errors.throwIfAny()
  return chunks
}

/** The document that the chunks make up. */
function assemble(chunks: readonly ManifestChunk[]): Record<string, unknown> {
  const root: Record<string, unknown> = {}
  let list: unknown[] = []
  for (const chunk of chunks) {
    if (chunk.kind === 'entries') Object.assign(root, parse(chunk.text))
    else if (chunk.kind === 'rows') list.push(...parse(chunk.text))
    else {
      list = []
      root[chunk.name] = list
    }
  }
  return root
}

const text = fc.oneof(
  fc.constantFrom('a', '- a', '---', '...', '# a', ']', 'x:', '  - b', 'a\n- b\n\n# c\nd:', '"', "'", '\n', '%a'),
  fc.string({ unit: 'grapheme' }),
  fc.array(fc.lorem(), { minLength: 2, maxLength: 5 }).map((lines) => lines.join('\n')),
)
const name = fc.constantFrom('acl', 'groups', 'config_version', 'routes', 'web_routes', '1', 'no')
const row = fc.dictionary(
  fc.constantFrom('a', 'b', 'seq', 'x_y'),
  fc.oneof(text, fc.integer(), fc.array(text, { maxLength: 2 })),
  {
    minKeys: 1,
    noNullPrototype: true,
  },
)
const document = fc.dictionary(name, fc.oneof(fc.array(row, { maxLength: 6 }), fc.integer()), {
  minKeys: 1,
  noNullPrototype: true,
})
/** Layouts that people and programs write. */
const layout = fc.record({
  indentSeq: fc.boolean(),
  indent: fc.constantFrom(1, 2, 4),
  lineWidth: fc.constantFrom(0, 20, 80),
  defaultStringType: fc.constantFrom('PLAIN', 'QUOTE_DOUBLE', 'QUOTE_SINGLE', 'BLOCK_LITERAL', 'BLOCK_FOLDED'),
  collectionStyle: fc.constantFrom('any', 'block', 'flow'),
  directives: fc.constant(null),
} as const)

suite('a split manifest', () => {
  test('has the same content as the whole in every layout', () => {
    const crlf = fc.boolean()
    const marked = fc.boolean()
    fc.assert(
      fc.property(document, layout, crlf, marked, (value, options, isCrlf, isMarked) => {
        const plain = `${isMarked ? '# about\n---\n' : ''}${stringify(value, options)}${isMarked ? '...\n# end\n' : ''}`
        const given = isCrlf ? plain.replace(/\n/g, '\r\n') : plain
        const whole = parseDocument(given)
        // The package cannot read some empty lists that it writes.
        fc.pre(whole.errors.length === 0)
        const chunks = chunksOf(given, 1)
        assert.deepEqual(assemble(chunks), whole.toJS())
        for (const chunk of chunks) {
          if (chunk.kind === 'list') continue
          const line = given.slice(0, given.indexOf(chunk.text)).split('\n').length
          assert.ok(chunk.line === line || given.indexOf(chunk.text) !== given.lastIndexOf(chunk.text))
        }
      }),
      { numRuns: 400 },
    )
  })

  test('is split at each key and, after the length of a batch, between rows', () => {
    const rows = (names: string) =>
      [...names].map((name) => `  - a: ${name}\n    b: |\n      - x\n\n      y\n`).join('')
    const given = `config_version: 1\nacl: []\nroutes: # comment\n# another\n${rows('xyz')}groups:\n- a: b\n`
    const short = (chunk: ManifestChunk): string =>
      `${chunk.line} ${chunk.kind} ${'text' in chunk ? chunk.text.length : chunk.name}`
    assert.deepEqual(chunksOf(given).map(short), [
      '1 entries 18',
      '2 entries 8',
      '3 list routes',
      '5 rows 111',
      '20 list groups',
      '21 rows 7',
    ])
    assert.equal(chunksOf(given, 1).filter(({ kind }) => kind === 'rows').length, 4)
    assert.deepEqual(assemble(chunksOf(given, 1)), parse(given))
  })

  test('stays whole if its root is in brackets, indented or a list', () => {
    for (const given of ['{\n"acl": [\n{"a": 1}\n]\n}\n', '  acl: []\n  routes:\n  - a: 1\n', '- a\n- b\n'])
      assert.deepEqual(
        chunksOf(given, 1).map(({ kind }) => kind),
        ['entries'],
      )
  })

  const refusals: Record<string, [string, RegExp]> = {
    'an empty file': ['', /line 1: the manifest is empty/],
    'only comments': ['# a\n\n  # b\n', /line 1: the manifest is empty/],
    'two documents': ['acl: []\n---\nacl: []\n', /line 2: a second document begins/],
    'a repeated document marker': ['---\n---\n', /line 2: a second document begins/],
    'content after the end marker': ['acl: []\n...\nb: 1\n', /line 3: a second document begins/],
    'a value on the line of a marker': ['--- {a: 1}\n', /line 1: nothing may follow ---/],
    'a directive': ['%YAML 1.1\n---\nacl: []\n', /line 1: directives are not allowed/],
  }
  for (const [what, [given, message]] of Object.entries(refusals))
    test(`is refused for ${what}`, () => assert.throws(() => chunksOf(given), message))
})
