// The registry's state file: a JSON array with one entry per line, written atomically. An unreadable registry is treated as
// empty, which denies everything.
import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errnoCode, readFileBytes, refuseDisk, writeAtomic } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { RegisteredSource } from './policy.ts'
import { readRegistration } from './registration.ts'

export type Warn = (sentence: string) => void

/** Allowlists have hundreds of hosts; this only keeps a file from filling the memory. */
const BYTES_MAX = 256 * 1_048_576
/** Limit of reported invalid entries. */
const REPORTED_MAX = 20
const MODE = 0o600
const OTHERS_WRITE = 0o022

export class StateFile {
  readonly #path: string
  /** Prefix of this file's temporary files: another proxy may keep its own file in the same directory. */
  readonly #prefix: string

  private constructor(path: string) {
    this.#path = path
    this.#prefix = `.egress-${hash('sha256', basename(path)).slice(0, 8)}-`
  }

  /** Refuses a path that can never be written. Resolves links once: a rename would replace the link itself. */
  static async open(path: string): Promise<StateFile> {
    if (path.includes('\0')) refuse('invalid', 'the path of the state file contains a NUL byte')
    try {
      await makeDirectory(dirname(path))
    } catch (error) {
      refuseDisk(error, 'make', dirname(path))
    }
    return new StateFile(await realpath(path).catch(() => path))
  }

  /** Removes what a kill in the middle of a write left behind. */
  async removeTemporaryFiles(warn: Warn): Promise<void> {
    const directory = dirname(this.#path)
    const isOurs = (name: string): boolean =>
      name.startsWith(this.#prefix) && /^[0-9a-f]{16}$/.test(name.slice(this.#prefix.length))
    try {
      for (const name of (await readdir(directory)).filter(isOurs)) await rm(join(directory, name), { force: true })
    } catch (error) {
      warn(`unfinished files of the registry are left in ${directory}: ${errnoCode(error) ?? 'no reason given'}`)
    }
  }

  /** Returns the valid entries and warns about the others. Refuses only a file that cannot be read. */
  async read(warn: Warn): Promise<RegisteredSource[]> {
    const bytes = await this.#bytes()
    if (bytes === undefined) return reset(`there is no state file ${this.#path}`, warn)
    await this.#checkMode(warn)
    const list = parseList(bytes)
    if (list === undefined) return reset(`the state file ${this.#path} is not a JSON array of entries`, warn)
    return this.#check(list, warn)
  }

  /** `lines` are entries as JSON. When it returns, the file survives a power cut. */
  async write(lines: readonly string[]): Promise<void> {
    await writeAtomic(this.#path, textOf(lines), MODE, this.#prefix)
  }

  /** Whether the next start would read exactly this. */
  async contentEquals(lines: readonly string[]): Promise<boolean> {
    return (await this.#bytes())?.equals(Buffer.from(textOf(lines))) ?? false
  }

  async #bytes(): Promise<Buffer | undefined> {
    try {
      return await readFileBytes(this.#path, BYTES_MAX)
    } catch (error) {
      if (error instanceof Refusal && error.code === 'not_found') return undefined
      throw error
    }
  }

  /** A user who can write the file decides what every source may reach. The first change replaces it by a file of mode 0600. */
  async #checkMode(warn: Warn): Promise<void> {
    const mode = (await stat(this.#path).catch(() => undefined))?.mode ?? 0
    if ((mode & OTHERS_WRITE) === 0) return
    warn(`the state file ${this.#path} can be written by other users of this machine: chmod go-w it`)
  }

  #check(list: readonly unknown[], warn: Warn): RegisteredSource[] {
    const entries = new Map<string, RegisteredSource>()
    const faults: string[] = []
    for (const [at, raw] of list.entries()) {
      const checked = check(raw)
      if (typeof checked === 'string') faults.push(`entry ${at + 1} is left out: ${checked}`)
      // Keep the first of two: it has been in effect.
      else if (entries.has(checked.ip)) faults.push(`entry ${at + 1} is left out: ${checked.ip} is a duplicate`)
      else entries.set(checked.ip, checked)
    }
    for (const fault of faults.slice(0, REPORTED_MAX)) warn(`the state file ${this.#path}: ${fault}`)
    const more = faults.length - REPORTED_MAX
    if (more > 0) warn(`the state file ${this.#path}: ${more} more entries are left out`)
    return [...entries.values()]
  }
}

/** Creates missing parents. Node's recursive mkdir never ends where the system allows none, as below /proc. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    const code = errnoCode(error)
    if (code === 'EEXIST') return
    if (code !== 'ENOENT' || existsSync(dirname(path))) throw error
    await makeDirectory(dirname(path))
    await mkdir(path, { mode: 0o700 })
  }
}

function reset(why: string, warn: Warn): RegisteredSource[] {
  warn(`${why}: the registry starts empty, and everything is denied`)
  return []
}

/** Undefined if it is not a JSON array: invalid UTF-8, truncated text, other JSON. */
function parseList(bytes: Buffer): readonly unknown[] | undefined {
  try {
    const list: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return Array.isArray(list) ? list : undefined
  } catch {
    return undefined
  }
}

/** The entry, or why it is invalid. */
function check(raw: unknown): RegisteredSource | string {
  try {
    return readRegistration(raw)
  } catch (error) {
    if (error instanceof Refusal) return error.message.slice(0, 500)
    throw error
  }
}

function textOf(lines: readonly string[]): string {
  return lines.length === 0 ? '[]\n' : `[\n${lines.join(',\n')}\n]\n`
}
