// The border to the YAML parser: pieces of a manifest as plain values with their lines. YAML 1.2's core schema and nothing
// more: no anchors, aliases, merge keys or tags, whose meaning a reader of the file cannot see where they stand.
import { createRequire } from 'node:module'
import type { CST, Node, Pair, ParsedNode, Scalar, YAMLMap, YAMLSeq } from 'yaml'
import { refuse } from '../../lib/refusal.ts'
import type { ManifestErrors } from './manifest-errors.ts'
import { type ManifestChunk, splitManifest } from './yaml-splitter.ts'

/** Of one chunk. The parser's tree takes some 200 bytes for each. */
const MAX_LEXEMES = 2_000_000
const MAX_DEPTH = 40
/** Not so much as a zero behind the point: a float is a slip even where its value happens to be whole. */
const WHOLE = /^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$/

/** What the lexer says before the text of a plain scalar. */
const SCALAR_FOLLOWS = '\u001f'

const OPTIONS = { version: '1.2', schema: 'core', uniqueKeys: false, logLevel: 'silent' } as const

/** Stands for a value whose fault is noted already: nothing further is to be said of it. */
export const INVALID_VALUE = Symbol('refused')

export type RowFields = ReadonlyMap<string, { readonly line: number; readonly value: unknown }>

export type ManifestPart =
  /** The rows that follow are of this key. */
  | { kind: 'list'; name: string; line: number }
  | { kind: 'row'; line: number; fields: RowFields }
  /** A key whose value is no list. */
  | { kind: 'value'; name: string; line: number; value: unknown }

/** Faults are noted and passed over, so that the rest can be read for further ones. */
export function* parseManifestParts(text: string, faults: ManifestErrors): Generator<ManifestPart> {
  const yaml = loadYaml()
  for (const chunk of splitManifest(text, faults)) {
    if (chunk.kind === 'list') yield chunk
    else yield* new ChunkReader(yaml, chunk, faults).pieces()
  }
}

/** When the first manifest is read, because every start would pay 30 ms for it; at once, because a schema cannot wait. */
function loadYaml(): typeof import('yaml') {
  return createRequire(import.meta.url)('yaml')
}

class ChunkReader {
  readonly #yaml: typeof import('yaml')
  readonly #chunk: Extract<ManifestChunk, { text: string }>
  readonly #faults: ManifestErrors
  readonly #newlines: InstanceType<typeof import('yaml').LineCounter>

  constructor(yaml: typeof import('yaml'), chunk: Extract<ManifestChunk, { text: string }>, faults: ManifestErrors) {
    this.#yaml = yaml
    this.#chunk = chunk
    this.#faults = faults
    this.#newlines = new yaml.LineCounter()
  }

  *pieces(): Generator<ManifestPart> {
    const root = this.#root()
    if (!root || !this.#isPlain(root)) return
    if (this.#chunk.kind === 'rows' && this.#yaml.isSeq(root)) yield* this.#rows(root)
    else if (this.#chunk.kind === 'entries' && this.#yaml.isMap(root)) yield* this.#entries(root)
    else this.#note(root, 'the manifest must be a mapping of config_version and the names of resources')
  }

  #root(): ParsedNode | null {
    const composer = new this.#yaml.Composer(OPTIONS)
    const [document, second] = composer.compose(this.#tokens(), true, this.#chunk.text.length)
    if (second) this.#faults.add(this.#line(second.range[0]), 'a second document begins: a manifest is one')
    for (const { pos, message } of document?.errors ?? []) this.#faults.add(this.#line(pos[0]), lowerFirst(message))
    return document?.errors.length === 0 && !second ? document.contents : null
  }

  #tokens(): CST.Token[] {
    const parser = new this.#yaml.Parser(this.#newlines.addNewLine)
    this.#newlines.addNewLine(0)
    const tokens: CST.Token[] = []
    const line = (): number => this.#line(parser.offset)
    let [count, last] = [0, '']
    for (const lexeme of new this.#yaml.Lexer().lex(this.#chunk.text)) {
      // The parser has been seen to drop what follows such a key without a word.
      if (lexeme === '?' && last !== SCALAR_FOLLOWS) this.#faults.add(line(), 'a manifest has no keys marked with ?')
      for (const token of parser.next(lexeme)) tokens.push(token)
      last = lexeme
      if (++count > MAX_LEXEMES) refuse('too_large', 'the manifest holds too much', 'write it as svc export does')
      if (parser.stack.length > MAX_DEPTH)
        refuse('invalid', `line ${line()}: is nested too deeply`, 'nothing was changed')
    }
    return [...tokens, ...parser.end()]
  }

  *#entries(root: YAMLMap): Generator<ManifestPart> {
    for (const [name, { line, node }] of this.#members(root)) {
      if (!this.#yaml.isSeq(node) || !isBare(node)) {
        yield { kind: 'value', name, line, value: this.#value(node) }
        continue
      }
      yield { kind: 'list', name, line }
      yield* this.#rows(node)
    }
  }

  *#rows(list: YAMLSeq): Generator<ManifestPart> {
    for (const item of list.items) {
      const node = this.#yaml.isNode(item) ? item : null
      if (!node || !this.#isPlain(node)) continue
      if (!this.#yaml.isMap(node)) {
        this.#note(node, 'a row must be a mapping of fields')
        continue
      }
      const fields = new Map<string, { line: number; value: unknown }>()
      for (const [name, { line, node: field }] of this.#members(node))
        fields.set(name, { line, value: this.#value(field) })
      yield { kind: 'row', line: this.#lineOf(node), fields }
    }
  }

  /** A duplicate is noted and left out. */
  #members(map: YAMLMap): Map<string, { line: number; node: Node | null }> {
    const members = new Map<string, { line: number; node: Node | null }>()
    for (const pair of map.items) {
      const name = this.#name(pair, map)
      if (name === undefined) continue
      const line = this.#yaml.isNode(pair.key) ? this.#lineOf(pair.key) : this.#lineOf(map)
      const before = members.get(name)
      if (before) this.#faults.add(line, `${name} stands here a second time: first in line ${before.line}`)
      else members.set(name, { line, node: this.#yaml.isNode(pair.value) ? pair.value : null })
    }
    return members
  }

  #name({ key }: Pair, map: YAMLMap): string | undefined {
    const node = this.#yaml.isNode(key) ? key : map
    if (!this.#isPlain(node)) return undefined
    if (this.#yaml.isScalar(node) && typeof node.value === 'string') return node.value
    this.#note(node, 'a key must be text')
    return undefined
  }

  #value(node: unknown): unknown {
    const yaml = this.#yaml
    if (!yaml.isNode(node)) return null
    if (!this.#isPlain(node)) return INVALID_VALUE
    if (yaml.isSeq(node)) return node.items.map((item) => this.#value(item))
    if (yaml.isMap(node))
      return Object.fromEntries([...this.#members(node)].map(([name, { node: member }]) => [name, this.#value(member)]))
    return yaml.isScalar(node) ? this.#scalar(node) : null
  }

  #scalar(node: Scalar): unknown {
    const { value, source = '' } = node
    if (typeof value !== 'number') return value
    // Adding zero makes -0 the 0 that it is everywhere else.
    if (WHOLE.test(source) && Number.isSafeInteger(value)) return value + 0
    this.#note(node, `${source} is ${WHOLE.test(source) ? 'beyond 2^53, where numbers are exact' : 'no whole number'}`)
    return INVALID_VALUE
  }

  #isPlain(node: Node): boolean {
    if (this.#yaml.isAlias(node)) this.#note(node, 'a manifest has no aliases: write the value out')
    else if (!isBare(node)) this.#note(node, 'a manifest has no anchors and no tags')
    else return true
    return false
  }

  #note(node: Node, text: string): void {
    this.#faults.add(this.#lineOf(node), text)
  }

  #lineOf(node: Node): number {
    return this.#line(node.range?.[0] ?? 0)
  }

  #line(offset: number): number {
    return this.#chunk.line + Math.max(this.#newlines.linePos(offset).line - 1, 0)
  }
}

function isBare({ anchor, tag }: { anchor?: string; tag?: string }): boolean {
  return anchor === undefined && tag === undefined
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}
