// A manifest held against the resources that it names. Reads no store: what is wrong by itself is said before one is opened.
import { nearest } from '../../lib/text/nearest-word.ts'
import { formatIssue } from '../../lib/text/schema-parser.ts'
import { decodeManifest } from './decoder.ts'
import { ManifestErrors } from './manifest-errors.ts'
import { type ManifestResource, type ManifestRow, rowIdentity, rowTitle } from './manifest-resource.ts'
import { INVALID_VALUE, type ManifestPart, parseManifestParts, type RowFields } from './yaml-parser.ts'

const VERSION = 'config_version'

export interface ListedRow {
  readonly line: number
  /** See `identityOf`. */
  readonly identity: string
  readonly row: ManifestRow
}

export interface ManifestSection {
  readonly shape: ManifestResource
  readonly line: number
  readonly rows: ListedRow[]
}

export interface Manifest {
  readonly sha256: string
  readonly version: number
  /** By name; only resources that the manifest names. */
  readonly sections: ReadonlyMap<string, ManifestSection>
}

/** What a manifest may name. */
export interface ManifestVocabulary {
  readonly shapes: readonly ManifestResource[]
  /** Every resource, so that one which is not exported is told from a typo. */
  readonly known: readonly string[]
}

/** The manifest, or a refusal that lists everything that is wrong with it. */
export function readManifest(given: string | Uint8Array, vocabulary: ManifestVocabulary): Manifest {
  const { text, sha256 } = decodeManifest(given)
  const faults = new ManifestErrors()
  const reading = new ManifestValidator(vocabulary, faults)
  for (const piece of parseManifestParts(text, faults)) reading.take(piece)
  return { sha256, ...reading.finish() }
}

class ManifestValidator {
  readonly #vocabulary: ManifestVocabulary
  readonly #faults: ManifestErrors
  readonly #lines = new Map<string, number>()
  readonly #sections = new Map<string, ManifestSection>()
  #version: number | undefined
  /** Whose rows are being read; nobody's where the name was wrong. */
  #list: { section: ManifestSection; identities: Map<string, number> } | undefined

  constructor(vocabulary: ManifestVocabulary, faults: ManifestErrors) {
    this.#vocabulary = vocabulary
    this.#faults = faults
  }

  take(piece: ManifestPart): void {
    const { line } = piece
    const fault = piece.kind === 'row' ? this.#row(line, piece.fields) : this.#key(piece)
    if (fault) this.#faults.add(line, fault)
  }

  finish(): Pick<Manifest, 'version' | 'sections'> {
    const isEmpty = this.#lines.size === 0 && !this.#faults.isEmpty
    if (!isEmpty && !this.#lines.has(VERSION))
      this.#faults.add(1, `${VERSION} is required: svc export shows the current one`)
    for (const section of this.#sections.values()) this.#checkList(section)
    this.#faults.throwIfAny()
    return { version: this.#version ?? 0, sections: this.#sections }
  }

  #key(piece: Exclude<ManifestPart, { kind: 'row' }>): string | undefined {
    const { name, line } = piece
    this.#list = undefined
    const before = this.#lines.get(name)
    if (before !== undefined) return `${name} stands here a second time: first in line ${before}`
    this.#lines.set(name, line)
    if (name === VERSION) return this.#readVersion(piece.kind === 'value' ? piece.value : undefined)
    const shape = this.#vocabulary.shapes.find((known) => known.name === name)
    if (!shape) return this.#unknown(name)
    // A key with nothing below it is an empty list.
    if (piece.kind === 'value' && piece.value !== null)
      return piece.value === INVALID_VALUE ? undefined : `${name} must be a list of rows`
    const section = { shape, line, rows: [] }
    this.#sections.set(name, section)
    this.#list = { section, identities: new Map() }
    return undefined
  }

  #readVersion(value: unknown): string | undefined {
    if (value === INVALID_VALUE) return undefined
    if (typeof value !== 'number' || value < 0) return `${VERSION} must be a whole number of at least 0`
    this.#version = value
    return undefined
  }

  #unknown(name: string): string {
    const { shapes, known } = this.#vocabulary
    if (known.includes(name)) return `${name} is no part of a manifest`
    const meant = nearest(name, [VERSION, ...shapes.map((shape) => shape.name)])
    return `${JSON.stringify(name)} is no resource${meant ? `: did you mean ${meant}?` : ''}`
  }

  #row(line: number, fields: RowFields): string | undefined {
    if (!this.#list) return undefined
    const { section, identities } = this.#list
    const { shape } = section
    const row = this.#checkedRow(shape, line, fields)
    if (!row) return undefined
    const identity = rowIdentity(shape, row)
    const before = identities.get(identity)
    if (before !== undefined) return `${shape.name}: ${rowTitle(shape, row)} stands in line ${before} already`
    identities.set(identity, line)
    section.rows.push({ line, identity, row })
    return undefined
  }

  #checkedRow({ name, columns, row }: ManifestResource, line: number, fields: RowFields): ManifestRow | undefined {
    const given: ManifestRow = {}
    for (const [field, { line: at, value }] of fields) {
      if (value === INVALID_VALUE) continue
      if (columns.includes(field)) given[field] = value
      else this.#faults.add(at, `${name}: ${unknownField(field, columns)}`)
    }
    // A missing field and one of a wrong type are told apart by the input.
    const { data, error } = row.safeParse(given, { reportInput: true })
    for (const issue of error?.issues ?? []) {
      const field = fields.get(String(issue.path[0]))
      if (field?.value !== INVALID_VALUE) this.#faults.add(field?.line ?? line, `${name}: ${formatIssue(issue)}`)
    }
    return data
  }

  /** Row by row first: what is wrong with one row is said with its line. */
  #checkList({ shape, line, rows }: ManifestSection): void {
    const { check = () => undefined, checkWhole = () => undefined } = shape.exported
    let sound = true
    for (const { line: at, row } of rows) {
      const fault = check([row])
      if (!fault) continue
      sound = false
      this.#faults.add(at, `${shape.name}: ${fault}`)
    }
    const all = rows.map(({ row }) => row)
    // A row with a fault of its own is not in the list.
    const fault = sound ? (check(all) ?? (this.#faults.isEmpty ? checkWhole(all) : undefined)) : undefined
    if (fault) this.#faults.add(line, `${shape.name}: ${fault}`)
  }
}

function unknownField(field: string, columns: readonly string[]): string {
  const meant = nearest(field, columns)
  return `${JSON.stringify(field)} is no field${meant ? `: did you mean ${meant}?` : ''}`
}
