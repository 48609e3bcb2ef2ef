// The files of a package in memory, whatever they come from. All limits and names are checked here, before anything is written.
import { hash } from 'node:crypto'
import { PACKAGE_FILE_MAX_BYTES } from '../../core/groups/package-skills.ts'
import { refuse } from '../../lib/refusal.ts'

const FILES_MAX = 500
const BYTES_MAX = 16 * 1024 * 1024
const DEPTH_MAX = 12
const SEGMENT = /^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}$/
/** Entries of a repository that belong to no package. */
const IGNORED = /^(?:\..*|.*\.md|LICEN[CS]E(?:\..*)?|NOTICE(?:\..*)?)$/

export interface PackageFile {
  readonly data: Buffer
  readonly isExecutable: boolean
}

export interface PackageTree {
  /** As recorded: a path, a URL or bundled:<name>. */
  readonly source: string
  /** The commit, or a hash of the content. */
  readonly revision: string
  readonly files: ReadonlyMap<string, PackageFile>
}

/** Whether an entry at the top of a package is skipped: hidden files, documents and licences. */
export function isIgnoredEntry(name: string): boolean {
  return IGNORED.test(name)
}

export interface PackageEntry {
  /** Relative, with "/". */
  readonly path: string
  readonly kind: 'file' | 'link' | 'module' | 'other'
  readonly size: number
}

const KIND_FAULTS = {
  link: 'is a symbolic link',
  module: 'is a submodule',
  other: 'is not a regular file',
} as const

/** Refuses entries in the order in which they are listed. */
export class TreeLimits {
  readonly #source: string
  #files = 0
  #bytes = 0

  constructor(source: string) {
    this.#source = source
  }

  check({ path, kind, size }: PackageEntry): void {
    const shown = JSON.stringify(path.slice(0, 200))
    const segments = path.split('/')
    if (kind !== 'file') this.#refuse(`${shown} ${KIND_FAULTS[kind]}; a package has only files and directories`)
    const bad = segments.find((segment) => !SEGMENT.test(segment))
    if (bad !== undefined)
      this.#refuse(
        `${shown}: the name ${JSON.stringify(bad.slice(0, 100))} is not allowed; a name is 1 to 100 letters, digits, "_", ".", "@", "+" or "-" and starts with a letter, a digit or "_"`,
      )
    if (segments.length > DEPTH_MAX) this.#refuse(`${shown} is nested deeper than ${DEPTH_MAX} levels`)
    if (size > PACKAGE_FILE_MAX_BYTES) this.#refuseSize(`${shown} is larger than ${PACKAGE_FILE_MAX_BYTES} bytes`)
    this.#bytes += size
    if (this.#bytes > BYTES_MAX) this.#refuseSize(`it has more than ${BYTES_MAX} bytes`)
    if (++this.#files > FILES_MAX) this.#refuseSize(`it has more than ${FILES_MAX} files`)
  }

  #refuse(fault: string): never {
    return refuse('invalid', `cannot use the package at ${this.#source}: ${fault}`)
  }

  #refuseSize(fault: string): never {
    return refuse('too_large', `cannot use the package at ${this.#source}: ${fault}`)
  }
}

/** As long as a commit's hash, so that errors do not redact it like a secret of 64 digits. */
const REVISION_LENGTH = 40

/** Equal for trees with equal paths, contents and executable bits. */
export function contentRevision(files: ReadonlyMap<string, PackageFile>): string {
  const lines = [...files]
    .map(([path, { data, isExecutable }]) => `${path}\0${isExecutable ? 'x' : '-'}\0${hash('sha256', data, 'hex')}\n`)
    .sort()
  return hash('sha256', lines.join(''), 'hex').slice(0, REVISION_LENGTH)
}
