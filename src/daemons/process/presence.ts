// Finds the processes on this machine that serve an instance. Each has a socket in `ipc` that sends its process id and URLs:
// unlike a PID file, a socket that accepts connections proves that its process is alive.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, rmSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import type { Layout } from '../../core/layout.ts'
import type { FaultHandler } from '../../lib/fault-boundary.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { makeDirectorySync } from '../../lib/files/owner.ts'
import { tryParseJson } from '../../lib/text/json.ts'

/** Of a process stopped by SIGSTOP only its existence is known. */
const ServingProcess = z.object({
  pid: z.int().optional(),
  /** By daemon name. */
  urls: z.record(z.string(), z.string()),
  /** The processes that a parent has started; absent without one. */
  processes: z
    .array(
      z.object({
        role: z.enum(['front', 'runner']),
        pid: z.int().optional(),
        started_at: z.string().optional(),
        restarts: z.int(),
        last_end: z.object({ at: z.string(), reason: z.string() }).optional(),
      }),
    )
    .optional(),
})
export type ServingProcess = z.output<typeof ServingProcess>

/** As long as the shortest name of a tool socket, because the length of socket paths is limited. */
const SOCKET_NAME = /^\.s[0-9a-f]{11}$/
const TIMEOUT_MS = 1000

export interface Presence {
  close(): void
}

/** Announces that this process serves the instance, until it is closed. */
export async function announceProcess(
  { ipc }: Layout,
  describe: () => ServingProcess,
  onFault: FaultHandler,
): Promise<Presence> {
  makeDirectorySync(ipc, 0o700)
  for (const path of await staleProcessSockets(ipc)) rmSync(path, { force: true })
  const path = join(ipc, `.s${randomBytes(6).toString('hex').slice(1)}`)
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    try {
      socket.end(JSON.stringify(describe()))
    } catch (error) {
      onFault(error)
      socket.destroy()
    }
  })
  server.listen(path)
  await once(server, 'listening')
  server.unref()
  chmodSync(path, 0o600)
  return { close: () => void server.close() }
}

/** Sockets of processes that ended without removing them. */
export async function staleProcessSockets(ipc: string): Promise<string[]> {
  const paths = (await readdir(ipc)).filter((name) => SOCKET_NAME.test(name)).map((name) => join(ipc, name))
  const stale: string[] = []
  for (const path of paths) if ((await queryProcess(path)) === undefined) stale.push(path)
  return stale
}

/** Undefined where this user may not read the directory. */
export async function servingProcesses({ ipc }: Pick<Layout, 'ipc'>): Promise<ServingProcess[] | undefined> {
  try {
    const names = (await readdir(ipc)).filter((name) => SOCKET_NAME.test(name))
    const found = await Promise.all(names.sort().map((name) => queryProcess(join(ipc, name))))
    return found.filter((process) => process !== undefined)
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return []
    if (errnoCode(error) === 'EACCES') return undefined
    throw error
  }
}

/** The URL of proxyd, or of the first daemon. */
export function urlOfProcess({ urls }: ServingProcess): string | undefined {
  return urls.proxyd ?? Object.values(urls)[0]
}

/** Undefined if no process listens on the socket. */
async function queryProcess(path: string): Promise<ServingProcess | undefined> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if (errnoCode(error) === 'EACCES') throw error
    return undefined
  }
  const timer = setTimeout(() => socket.destroy(), TIMEOUT_MS)
  try {
    return ServingProcess.parse(tryParseJson(await text(socket)))
  } catch {
    return { urls: {} }
  } finally {
    clearTimeout(timer)
    socket.destroy()
  }
}
