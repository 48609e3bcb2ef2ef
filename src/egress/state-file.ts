// The file that keeps the registry: a JSON array of entries, one a line. Written whole or not at all; what cannot be read
// as a registry is an empty one, which denies everything.
import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { diskCode, readBytes, refuseDisk, writeAtomic } from '../lib/atomic-file.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Entry } from './match.ts'
import { readRegistration } from './registration.ts'

export type Warn = (sentence: string) => void

/** Hosts are counted by the hundred; this is only so that no file can fill the memory. */
const BYTES_MAX = 256 * 1_048_576
/** So many entries that are left out are told one by one. */
const TOLD_MAX = 20
const MODE = 0o600
const OTHERS_WRITE = 0o022

export class StateFile {
  readonly #path: string
  /** Of the file's temporaries, and of no other's: another proxy may keep its own file in the same directory. */
  readonly #prefix: string

  private constructor(path: string) {
    this.#path = path
    this.#prefix = `.egress-${hash('sha256', basename(path)).slice(0, 8)}-`
  }

  /** Refuses what can never be written. Links are followed once, here: a rename would replace the link itself. */
  static async open(path: string): Promise<StateFile> {
    if (path.includes('\0')) refuse('invalid', 'the path of the state file has a zero byte in it')
    try {
      await makeDirectory(dirname(path))
    } catch (error) {
      refuseDisk(error, 'make', dirname(path))
    }
    return new StateFile(await realpath(path).catch(() => path))
  }

  /** What a kill left behind in the middle of a write. */
  async sweep(warn: Warn): Promise<void> {
    const directory = dirname(this.#path)
    const isOurs = (name: string): boolean =>
      name.startsWith(this.#prefix) && /^[0-9a-f]{16}$/.test(name.slice(this.#prefix.length))
    try {
      for (const name of (await readdir(directory)).filter(isOurs)) await rm(join(directory, name), { force: true })
    } catch (error) {
      warn(`unfinished files of the registry are left in ${directory}: ${diskCode(error) ?? 'no reason given'}`)
    }
  }

  /** The entries that are valid today; of all others a warning. Refused only where nobody can tell what the file says. */
  async read(warn: Warn): Promise<Entry[]> {
    const bytes = await this.#bytes()
    if (bytes === undefined) return reset(`there is no state file ${this.#path}`, warn)
    await this.#checkMode(warn)
    const list = parseList(bytes)
    if (list === undefined) return reset(`the state file ${this.#path} is not a JSON array of entries`, warn)
    return this.#check(list, warn)
  }

  /** `lines` are entries as JSON. After it returns, the file survives a power cut. */
  async write(lines: readonly string[]): Promise<void> {
    await writeAtomic(this.#path, textOf(lines), MODE, this.#prefix)
  }

  /** Whether exactly this is what the next start would read. */
  async holds(lines: readonly string[]): Promise<boolean> {
    return (await this.#bytes())?.equals(Buffer.from(textOf(lines))) ?? false
  }

  async #bytes(): Promise<Buffer | undefined> {
    try {
      return await readBytes(this.#path, BYTES_MAX)
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

  #check(list: readonly unknown[], warn: Warn): Entry[] {
    const entries = new Map<string, Entry>()
    const faults: string[] = []
    for (const [at, raw] of list.entries()) {
      const checked = check(raw)
      if (typeof checked === 'string') faults.push(`entry ${at + 1} is left out: ${checked}`)
      // Which of two is meant nobody knows; the first has been in effect.
      else if (entries.has(checked.ip)) faults.push(`entry ${at + 1} is left out: ${checked.ip} is there already`)
      else entries.set(checked.ip, checked)
    }
    for (const fault of faults.slice(0, TOLD_MAX)) warn(`the state file ${this.#path}: ${fault}`)
    const more = faults.length - TOLD_MAX
    if (more > 0) warn(`the state file ${this.#path}: ${more} more entries are left out`)
    return [...entries.values()]
  }
}

/** With those above it. Node's own way would try for ever where the system makes none, as below /proc. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    const code = diskCode(error)
    if (code === 'EEXIST') return
    if (code !== 'ENOENT' || existsSync(dirname(path))) throw error
    await makeDirectory(dirname(path))
    await mkdir(path, { mode: 0o700 })
  }
}

function reset(why: string, warn: Warn): Entry[] {
  warn(`${why}: the registry starts empty, and everything is denied`)
  return []
}

/** Nothing when it is no list: bytes that are no text, a text that is cut off, another kind of JSON. */
function parseList(bytes: Buffer): readonly unknown[] | undefined {
  try {
    const list: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return Array.isArray(list) ? list : undefined
  } catch {
    return undefined
  }
}

/** The entry, or why it is none. */
function check(raw: unknown): Entry | string {
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
