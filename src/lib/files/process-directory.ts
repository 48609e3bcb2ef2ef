// Temporary directories of this process. Their names contain its pid, so that those of killed processes can be found and
// removed.
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errnoCode } from './atomic-file.ts'

/** Creates a directory, after removing those that dead processes of this user left under the same prefix. */
export function makeProcessDirectory(prefix: string, mode: number): string {
  sweep(prefix)
  const path = mkdtempSync(join(tmpdir(), `${prefix}${process.pid}-`))
  chmodSync(path, mode)
  return path
}

export function removeProcessDirectory(path: string): void {
  rmSync(path, { recursive: true, force: true })
}

function sweep(prefix: string): void {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = (name.startsWith(prefix) && /^(\d+)-/.exec(name.slice(prefix.length))) || []
    if (pid === undefined || isRunning(Number(pid))) continue
    const path = join(tmpdir(), name)
    try {
      if (statSync(path).uid === process.getuid?.()) rmSync(path, { recursive: true, force: true })
    } catch {
      // Another process has removed it or is using it.
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errnoCode(error) !== 'ESRCH'
  }
}
