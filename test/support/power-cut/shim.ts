// Simulates a power cut: compiles shim.c and preloads it into a process, to record writes and syncs.
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { RepeatableRandom } from '../repeatable-random.ts'
import { type CleanupScope, tempDir } from '../temp.ts'

const SOURCE = join(import.meta.dirname, 'shim.c')
const SECTOR = 4096
/** The unit that a disk writes atomically. */
const ATOM = 512

export interface DiskFaults {
  /** Syncs of files with this suffix are ignored, like those that SQLite omits with `synchronous=NORMAL`. */
  readonly lazy?: string
  /** The k-th sync of files with this suffix fails with EIO. */
  readonly fail?: { readonly ending: string; readonly at: number }
  /** Each sync takes this much longer. */
  readonly slowMs?: number
}

export interface WatchedDisk {
  /** The environment of the processes that write below the directory. There must be no other writers. */
  readonly env: Record<string, string>
  /**
   * Restores the directory as after a power cut; call it after all of them were killed. Of the writes without a sync, `none` are
   * kept, or `some` random sectors, or all up to one that is `torn`.
   */
  cut(unsynced: Unsynced, chance: RepeatableRandom): string
}

export type Unsynced = 'none' | 'some' | 'torn'
export const UNSYNCED: readonly Unsynced[] = ['none', 'some', 'torn']

/** The compiled shim, removed after the test. */
export function buildShim(t: CleanupScope): string {
  const shim = join(tempDir(t), 'power-cut.so')
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', shim, SOURCE, '-ldl'], { stdio: 'inherit' })
  return shim
}

/** The current files of the directory count as synced. */
export function watchDisk(t: CleanupScope, shim: string, folder: string, weakness: DiskFaults = {}): WatchedDisk {
  const real = realpathSync(folder)
  const shadow = join(tempDir(t), basename(real))
  cpSync(real, shadow, { recursive: true, filter: isKept })
  const { lazy, fail, slowMs } = weakness
  return {
    env: {
      LD_PRELOAD: shim,
      POWER_CUT_DIR: real,
      POWER_CUT_SHADOW: shadow,
      ...(lazy ? { POWER_CUT_LAZY: lazy } : {}),
      ...(fail ? { POWER_CUT_FAIL: `${fail.ending}:${fail.at}` } : {}),
      ...(slowMs ? { POWER_CUT_SLOW: String(slowMs) } : {}),
    },
    cut: (unsynced, chance) => {
      if (unsynced !== 'none') keepUnsynced(real, shadow, unsynced, chance)
      return shadow
    },
  }
}

/** The index of the write-ahead log is in shared memory and is rebuilt. */
function isKept(path: string): boolean {
  return !path.endsWith('-shm')
}

/** The directory contains all writes of the killed processes, so differences were not synced. */
function keepUnsynced(real: string, shadow: string, unsynced: 'some' | 'torn', chance: RepeatableRandom): void {
  for (const name of readdirSync(real, { recursive: true, encoding: 'utf8' })) {
    const path = join(real, name)
    if (!isKept(path) || !statSync(path).isFile()) continue
    const now = readFileSync(path)
    const synced = existsSync(join(shadow, name)) ? readFileSync(join(shadow, name)) : Buffer.alloc(0)
    mkdirSync(dirname(join(shadow, name)), { recursive: true })
    const file = openSync(join(shadow, name), existsSync(join(shadow, name)) ? 'r+' : 'w')
    for (const [at, bytes] of chosen(differing(now, synced), unsynced, chance))
      writeSync(file, bytes, 0, bytes.length, at)
    closeSync(file)
  }
}

type Sector = readonly [at: number, bytes: Buffer]

function differing(now: Buffer, synced: Buffer): Sector[] {
  const places = Array.from({ length: Math.ceil(now.length / SECTOR) }, (_, index) => index * SECTOR)
  return places
    .map((at): Sector => [at, now.subarray(at, at + SECTOR)])
    .filter(([at, bytes]) => !bytes.equals(synced.subarray(at, at + SECTOR)))
}

function chosen(sectors: readonly Sector[], unsynced: 'some' | 'torn', chance: RepeatableRandom): Sector[] {
  if (unsynced === 'some') return sectors.filter(() => chance.below(2) === 0)
  const last = chance.below(sectors.length + 1)
  return sectors.slice(0, last).map(([at, bytes], index) => {
    const isTorn = index === last - 1
    return [at, isTorn ? bytes.subarray(0, chance.below(SECTOR / ATOM) * ATOM) : bytes]
  })
}
