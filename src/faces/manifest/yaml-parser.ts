// Parses a manifest with the YAML package into values with their lines. Only the core schema of YAML 1.2: anchors, aliases,
// merge keys and tags are refused, because their meaning is not visible where they are used.
import { createRequire } from 'node:module'
import type { CST, Node, Pair, ParsedNode, Scalar, YAMLMap, YAMLSeq } from 'yaml'
import { refuse } from '../../lib/refusal.ts'
import type { ManifestErrors } from './manifest-errors.ts'
import { type ManifestChunk, splitManifest } from './yaml-splitter.ts'

/** Per chunk: the parser's tree takes about 200 bytes for each. */
const MAX_LEXEMES = 2_000_000
const MAX_DEPTH = 40
/** Without a decimal point: 1.0 is probably a mistake too. */
const WHOLE = /^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$/

/** The lexer's token before the text of a plain scalar. */
const SCALAR_FOLLOWS = '\u001f'

const OPTIONS = { version: '1.2', schema: 'core', uniqueKeys: false, logLevel: 'silent' } as const

/** A value whose error is already reported. */
export const INVALID_VALUE = Symbol('invalid')

export type RowFields = ReadonlyMap<string, { readonly line: number; readonly value: unknown }>

export type ManifestPart =
  /** The following rows belong to this key. */
  | { kind: 'list'; name: string; line: number }
  | { kind: 'row'; line: number; fields: RowFields }
  /** A key whose value is not a list. */
  | { kind: 'value'; name: string; line: number; value: unknown }

/** Skips invalid parts, so that one run finds all errors. */
export function* parseManifestParts(text: string, errors: ManifestErrors): Generator<ManifestPart> {
  const yaml = loadYaml()
  for (const chunk of splitManifest(text, errors)) {
    if (chunk.kind === 'list') yield chunk
    else yield* new ChunkReader(yaml, chunk, errors).parts()
  }
}

/** Loads the package with the first manifest, because it takes 30 ms, and synchronously, because zod transforms are. */
function loadYaml(): typeof import('yaml') {
  return createRequire(import.meta.url)('yaml')
}

type TextChunk = Extract<ManifestChunk, { text: string }>

class ChunkReader {
  readonly #yaml: typeof import('yaml')
  readonly #chunk: TextChunk
  readonly #errors: ManifestErrors
  readonly #newlines: InstanceType<typeof import('yaml').LineCounter>

  constructor(yaml: typeof import('yaml'), chunk: TextChunk, errors: ManifestErrors) {
    this.#yaml = yaml
    this.#chunk = chunk
    this.#errors = errors
    this.#newlines = new yaml.LineCounter()
  }

  *parts(): Generator<ManifestPart> {
    const root = this.#root()
    if (!root || !this.#isPlain(root)) return
    if (this.#chunk.kind === 'rows' && this.#yaml.isSeq(root)) yield* this.#rows(root)
    else if (this.#chunk.kind === 'entries' && this.#yaml.isMap(root)) yield* this.#entries(root)
    else this.#report(root, 'the manifest must be a mapping of config_version and the names of resources')
  }

  #root(): ParsedNode | null {
    const composer = new this.#yaml.Composer(OPTIONS)
    const [document, second] = composer.compose(this.#tokens(), true, this.#chunk.text.length)
    if (second) this.#errors.add(this.#line(second.range[0]), 'a second document begins: a manifest has only one')
    for (const { pos, message } of document?.errors ?? []) this.#errors.add(this.#line(pos[0]), lowerFirst(message))
    return document?.errors.length === 0 && !second ? document.contents : null
  }

  #tokens(): CST.Token[] {
    const parser = new this.#yaml.Parser(this.#newlines.addNewLine)
    this.#newlines.addNewLine(0)
    const tokens: CST.Token[] = []
    const line = (): number => this.#line(parser.offset)
    let [count, last] = [0, '']
    for (const lexeme of new this.#yaml.Lexer().lex(this.#chunk.text)) {
      // The parser can silently drop what follows such a key.
      if (lexeme === '?' && last !== SCALAR_FOLLOWS)
        this.#errors.add(line(), 'keys with the ? indicator are not allowed')
      for (const token of parser.next(lexeme)) tokens.push(token)
      last = lexeme
      if (++count > MAX_LEXEMES)
        refuse('too_large', 'the manifest has too many values in one part', 'format it like svc export')
      if (parser.stack.length > MAX_DEPTH) refuse('invalid', `line ${line()}: nested too deeply`, 'nothing was changed')
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
        this.#report(node, 'a row must be a mapping of fields')
        continue
      }
      const fields = new Map<string, { line: number; value: unknown }>()
      for (const [name, { line, node: field }] of this.#members(node))
        fields.set(name, { line, value: this.#value(field) })
      yield { kind: 'row', line: this.#lineOf(node), fields }
    }
  }

  /** Reports and skips duplicates. */
  #members(map: YAMLMap): Map<string, { line: number; node: Node | null }> {
    const members = new Map<string, { line: number; node: Node | null }>()
    for (const pair of map.items) {
      const name = this.#name(pair, map)
      if (name === undefined) continue
      const line = this.#yaml.isNode(pair.key) ? this.#lineOf(pair.key) : this.#lineOf(map)
      const first = members.get(name)
      if (first) this.#errors.add(line, `duplicate key ${name}: first in line ${first.line}`)
      else members.set(name, { line, node: this.#yaml.isNode(pair.value) ? pair.value : null })
    }
    return members
  }

  #name({ key }: Pair, map: YAMLMap): string | undefined {
    const node = this.#yaml.isNode(key) ? key : map
    if (!this.#isPlain(node)) return undefined
    if (this.#yaml.isScalar(node) && typeof node.value === 'string') return node.value
    this.#report(node, 'a key must be text')
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
    // Adding zero turns -0 into 0.
    if (WHOLE.test(source) && Number.isSafeInteger(value)) return value + 0
    this.#report(node, `${source} ${WHOLE.test(source) ? 'is too large: the limit is 2^53' : 'is not a whole number'}`)
    return INVALID_VALUE
  }

  #isPlain(node: Node): boolean {
    if (this.#yaml.isAlias(node)) this.#report(node, 'aliases are not allowed: write the value out')
    else if (!isBare(node)) this.#report(node, 'anchors and tags are not allowed')
    else return true
    return false
  }

  #report(node: Node, text: string): void {
    this.#errors.add(this.#lineOf(node), text)
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
