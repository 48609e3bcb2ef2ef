// The texts of small files of a workspace, read at once: whoever starts a turn waits for them, and to ask another thread for
// each step takes far longer than the steps. Judged as by `openInWorkspace`: by what was opened, not by its name.
import { closeSync, constants, fstatSync, openSync, readlinkSync, readSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { refuseDisk } from '../lib/atomic-file.ts'
import { Refusal } from '../lib/refusal.ts'
import { realHomeNow } from './home.ts'
import type { Layout } from './layout.ts'
import { mustLieInside } from './workspace.ts'

const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Of each of these names; nothing where there is no plain file, or none of at most so many bytes. */
export function workspaceTexts(
  layout: Layout,
  folder: string,
  names: readonly string[],
  maxBytes: number,
): (string | undefined)[] {
  const home = unlessRefused(() => realHomeNow(layout, folder))
  return names.map((name) => (home === undefined ? undefined : unlessRefused(() => textIn(home, name, maxBytes))))
}

function unlessRefused<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

function textIn(home: string, name: string, maxBytes: number): string | undefined {
  try {
    const real = mustBeInside(home, name)
    // Not opened to find out: to open a device may do something.
    if (!statSync(real).isFile()) return undefined
    const file = openSync(real, FLAGS)
    try {
      return textOf(file, home, name, maxBytes)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    return refuseDisk(error, 'read', name)
  }
}

function textOf(file: number, home: string, name: string, maxBytes: number): string | undefined {
  const opened = fstatSync(file)
  if (!opened.isFile() || opened.size > maxBytes) return undefined
  // Between the look and the opening somebody may have put something else there. What is open has one name, which the
  // kernel tells.
  const real = nameOf(file)
  if (real !== undefined) mustLieInside(home, real, name)
  else {
    const again = statSync(mustBeInside(home, name))
    if (opened.ino !== again.ino || opened.dev !== again.dev) return undefined
  }
  // Not to its end: somebody may write as fast as it is read.
  const bytes = Buffer.allocUnsafe(opened.size)
  return bytes.toString('utf8', 0, readSync(file, bytes))
}

function mustBeInside(home: string, name: string): string {
  const real = realpathSync.native(join(home, name))
  mustLieInside(home, real, name)
  return real
}

function nameOf(file: number): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${file}`)
  } catch {
    return undefined
  }
}
