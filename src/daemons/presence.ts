// Which processes on this machine serve an instance. Each has a socket in `ipc` that tells its process id and its addresses:
// a socket that takes a connection proves that its process lives, which a file with a process id does not.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import type { Layout } from '../core/layout.ts'
import { diskCode } from '../lib/atomic-file.ts'
import { tryJson } from '../lib/json.ts'

/** A process that serves an instance. Of one that is stopped (SIGSTOP) only its existence is known. */
const ServingProcess = z.object({
  pid: z.int().optional(),
  /** `<daemon>` to where it listens. */
  urls: z.record(z.string(), z.string()),
})
export type ServingProcess = z.output<typeof ServingProcess>

/** Of the same length as the shortest name of a tool socket, so that the path has room for it. */
const SOCKET_NAME = /^\.s[0-9a-f]{11}$/
const ANSWER_MS = 1000

export interface Presence {
  close(): void
}

/** Tells others that this process serves the instance, until it is closed. */
export async function announce({ ipc }: Layout, process: ServingProcess): Promise<Presence> {
  mkdirSync(ipc, { recursive: true, mode: 0o700 })
  for (const name of (await readdir(ipc)).filter((name) => SOCKET_NAME.test(name))) {
    const path = join(ipc, name)
    if ((await ask(path)) === undefined) rmSync(path, { force: true })
  }
  const path = join(ipc, `.s${randomBytes(6).toString('hex').slice(1)}`)
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.end(JSON.stringify(process))
  })
  server.listen(path)
  await once(server, 'listening')
  server.unref()
  chmodSync(path, 0o600)
  return { close: () => void server.close() }
}

/** Nothing, where this user may not look. */
export async function servingProcesses({ ipc }: Pick<Layout, 'ipc'>): Promise<ServingProcess[] | undefined> {
  try {
    const names = (await readdir(ipc)).filter((name) => SOCKET_NAME.test(name))
    const found = await Promise.all(names.sort().map((name) => ask(join(ipc, name))))
    return found.filter((process) => process !== undefined)
  } catch (error) {
    if (diskCode(error) === 'ENOENT') return []
    if (diskCode(error) === 'EACCES') return undefined
    throw error
  }
}

/** Where it is reached: at the front door, else at the first of its daemons. */
export function addressOf({ urls }: ServingProcess): string | undefined {
  return urls.proxyd ?? Object.values(urls)[0]
}

/** What the process at this socket says; nothing, where there is none. */
async function ask(path: string): Promise<ServingProcess | undefined> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if (diskCode(error) === 'EACCES') throw error
    return undefined
  }
  const timer = setTimeout(() => socket.destroy(), ANSWER_MS)
  try {
    return ServingProcess.parse(tryJson(await text(socket)))
  } catch {
    return { urls: {} }
  } finally {
    clearTimeout(timer)
    socket.destroy()
  }
}
