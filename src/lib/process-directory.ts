// Temporary directories that belong to this process. Their names hold its number, so that those of a process that was killed
// can be found and removed.
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { diskCode } from './atomic-file.ts'

/** A fresh directory; those that dead processes of this user have left with the same prefix are removed first. */
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
      // Another process has removed it, or it is in use there.
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return diskCode(error) !== 'ESRCH'
  }
}
