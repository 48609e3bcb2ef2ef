// What many test processes need and one of them builds, while the others wait.
import { execFileSync, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SHARED_FOLDER } from './temp.ts'

/** A directory below `kept`, or for this run of the tests. A process that runs alone gets one of its own. */
export function sharedFolder(name: string, kept?: string): string {
  const shared = kept ?? process.env[SHARED_FOLDER]
  const folder = shared ? join(shared, name) : mkdtempSync(join(tmpdir(), `${name}-`))
  if (!shared) process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Calls `build` in one process at a time, and not if the directory has what was built from the same inputs. */
export async function buildOnce(folder: string, inputs: string, build: () => Promise<void>): Promise<void> {
  const unlock = await lock(join(folder, 'lock'))
  try {
    const key = join(folder, 'inputs')
    if (existsSync(key) && readFileSync(key, 'utf8') === inputs) return
    rmSync(key, { force: true })
    await build()
    writeFileSync(key, inputs)
  } finally {
    await unlock()
  }
}

const made = new Map<string, string>()

/**
 * Fills the directory `to` with a copy of an instance that `make` has put into another one, once in this run for these inputs.
 * Returns the directory of that one, beside which `make` may leave more.
 */
export async function copyInstance(inputs: unknown, to: string, make: (folder: string) => Promise<void>) {
  // Its tasks are due at full hours. They would run at once in a copy from the hour before.
  const key = JSON.stringify([inputs, new Date().toISOString().slice(0, 13)])
  const name = `instance-${hash('sha256', key, 'hex').slice(0, 16)}`
  const folder = made.get(name) ?? sharedFolder(name)
  made.set(name, folder)
  const original = join(folder, 'original')
  await buildOnce(folder, key, async () => {
    rmSync(original, { recursive: true, force: true })
    mkdirSync(original, { mode: 0o711 })
    await make(original)
  })
  // With the owners of the files.
  execFileSync('cp', ['-a', `${original}/.`, to])
  return original
}

/** Exclusive among processes; the kernel releases it if this process is killed. */
async function lock(path: string): Promise<() => Promise<void>> {
  const holder = spawn('flock', [path, 'sh', '-c', 'echo locked; cat'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(holder, 'exit')
  await Promise.race([
    once(holder.stdout, 'data'),
    ended.then(([code]) => Promise.reject(new Error(`flock ended with ${code}`))),
  ])
  return async () => {
    holder.stdin.end()
    await ended
  }
}
