// A directory of this process among those of other processes. A socket in it shows whether its process is alive: unlike a
// PID, that works for processes in other containers too.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, constants, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { errnoCode } from './atomic-file.ts'
import { makeDirectorySync } from './owner.ts'

const ALIVE = 'alive'
const NAME = /^[0-9a-f]{12}$/
/** Until its socket listens, a directory has another name. */
const NEW_PREFIX = '.new-'
const NEW_MS = 60_000

export class LiveDirectory {
  readonly id: string
  readonly path: string
  readonly #alive: Server

  private constructor(id: string, path: string, alive: Server) {
    this.id = id
    this.path = path
    this.#alive = alive
  }

  static async open(parent: string): Promise<LiveDirectory> {
    const id = randomBytes(6).toString('hex')
    const unfinished = join(parent, NEW_PREFIX + id)
    makeDirectorySync(unfinished, 0o700)
    const alive = await listenIn(unfinished, ALIVE, (socket) => socket.destroy())
    alive.unref()
    const path = join(parent, id)
    renameSync(unfinished, path)
    return new LiveDirectory(id, path, alive)
  }

  close(): void {
    this.#alive.close()
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** Listens on a socket in a directory, however long the path of the directory is: socket paths are limited to 107 bytes. */
export async function listenIn(
  directory: string,
  name: string,
  onConnection: (socket: Socket) => void,
): Promise<Server> {
  const server = createServer(onConnection)
  await listenByDescriptor(server, directory, name)
  return server
}

export async function listenByDescriptor(server: Server, directory: string, name: string): Promise<void> {
  const fd = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY)
  server.once('close', () => closeSync(fd))
  server.listen(`/proc/self/fd/${fd}/${name}`)
  await once(server, 'listening')
}

/** The names of directories whose process is alive. */
export async function liveDirectories(parent: string): Promise<Set<string>> {
  const live = new Set<string>()
  for (const name of listNames(parent).filter((each) => NAME.test(each)))
    if (await isAlive(join(parent, name))) live.add(name)
  return live
}

/** Removes all directories but these. */
export function removeDeadDirectories(parent: string, live: ReadonlySet<string>): void {
  for (const name of listNames(parent)) {
    const path = join(parent, name)
    const isNew = name.startsWith(NEW_PREFIX)
    if (isNew && Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) < NEW_MS) continue
    if (isNew || (NAME.test(name) && !live.has(name))) rmSync(path, { recursive: true, force: true })
  }
}

function listNames(path: string): string[] {
  try {
    return readdirSync(path)
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return []
    throw error
  }
}

async function isAlive(directory: string): Promise<boolean> {
  let fd: number | undefined
  let socket: Socket | undefined
  try {
    fd = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY)
    socket = connect(`/proc/self/fd/${fd}/${ALIVE}`)
    await once(socket, 'connect')
    return true
  } catch (error) {
    return errnoCode(error) !== 'ECONNREFUSED' && errnoCode(error) !== 'ENOENT'
  } finally {
    socket?.destroy()
    if (fd !== undefined) closeSync(fd)
  }
}
