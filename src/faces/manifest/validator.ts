// Parses a manifest and validates it against the resources, without a store.
import { nearest } from '../../lib/text/nearest-word.ts'
import { formatIssue } from '../../lib/text/schema-parser.ts'
import { decodeManifest } from './decoder.ts'
import { ManifestErrors } from './manifest-errors.ts'
import { type ManifestResource, type ManifestRow, rowIdentity, rowTitle } from './manifest-resource.ts'
import { INVALID_VALUE, type ManifestPart, parseManifestParts, type RowFields } from './yaml-parser.ts'

const VERSION = 'config_version'

export interface ListedRow {
  readonly line: number
  /** See `rowIdentity`. */
  readonly identity: string
  readonly row: ManifestRow
}

export interface ManifestSection {
  readonly resource: ManifestResource
  readonly line: number
  readonly rows: ListedRow[]
}

export interface Manifest {
  readonly sha256: string
  readonly version: number
  /** By name; only resources that the manifest names. */
  readonly sections: ReadonlyMap<string, ManifestSection>
}

interface KnownResources {
  /** Those that a manifest may name. */
  readonly exported: readonly ManifestResource[]
  /** The names of all, to tell a resource that is not exported from a typo. */
  readonly names: readonly string[]
}

/** Refuses with all errors at once. */
export function readManifest(input: string | Uint8Array, known: KnownResources): Manifest {
  const { text, sha256 } = decodeManifest(input)
  const errors = new ManifestErrors()
  const validator = new ManifestValidator(known, errors)
  for (const part of parseManifestParts(text, errors)) validator.add(part)
  return { sha256, ...validator.finish() }
}

class ManifestValidator {
  readonly #known: KnownResources
  readonly #errors: ManifestErrors
  readonly #lines = new Map<string, number>()
  readonly #sections = new Map<string, ManifestSection>()
  #version: number | undefined
  /** The section of the next rows; undefined after an invalid name. */
  #list: { section: ManifestSection; identities: Map<string, number> } | undefined

  constructor(known: KnownResources, errors: ManifestErrors) {
    this.#known = known
    this.#errors = errors
  }

  add(part: ManifestPart): void {
    const { line } = part
    const error = part.kind === 'row' ? this.#addRow(line, part.fields) : this.#addKey(part)
    if (error) this.#errors.add(line, error)
  }

  finish(): Pick<Manifest, 'version' | 'sections'> {
    const isEmpty = this.#lines.size === 0 && !this.#errors.isEmpty
    if (!isEmpty && !this.#lines.has(VERSION))
      this.#errors.add(1, `${VERSION} is required: svc export prints the current one`)
    for (const section of this.#sections.values()) this.#checkRows(section)
    this.#errors.throwIfAny()
    return { version: this.#version ?? 0, sections: this.#sections }
  }

  #addKey(part: Exclude<ManifestPart, { kind: 'row' }>): string | undefined {
    const { name, line } = part
    this.#list = undefined
    const firstLine = this.#lines.get(name)
    if (firstLine !== undefined) return `duplicate key ${name}: first in line ${firstLine}`
    this.#lines.set(name, line)
    if (name === VERSION) return this.#readVersion(part.kind === 'value' ? part.value : undefined)
    const resource = this.#known.exported.find((exported) => exported.name === name)
    if (!resource) return this.#unknownResource(name)
    // A key without a value is an empty list.
    if (part.kind === 'value' && part.value !== null)
      return part.value === INVALID_VALUE ? undefined : `${name} must be a list of rows`
    const section = { resource, line, rows: [] }
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

  #unknownResource(name: string): string {
    const { exported, names } = this.#known
    if (names.includes(name)) return `${name} cannot be in a manifest`
    return describeUnknown('resource', name, [VERSION, ...exported.map((resource) => resource.name)])
  }

  #addRow(line: number, fields: RowFields): string | undefined {
    if (!this.#list) return undefined
    const { section, identities } = this.#list
    const { resource } = section
    const row = this.#parseRow(resource, line, fields)
    if (!row) return undefined
    const identity = rowIdentity(resource, row)
    const firstLine = identities.get(identity)
    if (firstLine !== undefined)
      return `${resource.name}: duplicate row ${rowTitle(resource, row)}: first in line ${firstLine}`
    identities.set(identity, line)
    section.rows.push({ line, identity, row })
    return undefined
  }

  #parseRow({ name, columns, rowSchema }: ManifestResource, line: number, fields: RowFields): ManifestRow | undefined {
    const values: ManifestRow = {}
    for (const [field, { line: fieldLine, value }] of fields) {
      if (value === INVALID_VALUE) continue
      if (columns.includes(field)) values[field] = value
      else this.#errors.add(fieldLine, `${name}: ${describeUnknown('field', field, columns)}`)
    }
    // `formatIssue` needs the input to tell a missing field from one of the wrong type.
    const { data, error } = rowSchema.safeParse(values, { reportInput: true })
    for (const issue of error?.issues ?? []) {
      const field = fields.get(String(issue.path[0]))
      if (field?.value !== INVALID_VALUE) this.#errors.add(field?.line ?? line, `${name}: ${formatIssue(issue)}`)
    }
    return data
  }

  /** Checks each row alone first, so that its error has its line. */
  #checkRows({ resource, line, rows }: ManifestSection): void {
    const { check = () => undefined, checkWhole = () => undefined } = resource.exported
    let isValid = true
    for (const { line: rowLine, row } of rows) {
      const error = check([row])
      if (!error) continue
      isValid = false
      this.#errors.add(rowLine, `${resource.name}: ${error}`)
    }
    if (!isValid) return
    const all = rows.map(({ row }) => row)
    // `all` lacks invalid rows, so the whole list is checked only if there are none.
    const error = check(all) ?? (this.#errors.isEmpty ? checkWhole(all) : undefined)
    if (error) this.#errors.add(line, `${resource.name}: ${error}`)
  }
}

function describeUnknown(kind: 'resource' | 'field', name: string, known: readonly string[]): string {
  const suggestion = nearest(name, known)
  return `unknown ${kind} ${JSON.stringify(name)}${suggestion ? `: did you mean ${suggestion}?` : ''}`
}
