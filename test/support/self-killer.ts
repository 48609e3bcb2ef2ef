// Preloaded into a process that is to die by SIGKILL at its nth write below a directory, in the middle of its work: KILL_AT
// counts changes of the directory and of open files.
import { constants } from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const { O_CREAT, O_RDWR, O_WRONLY } = constants
const [at, below] = [Number(process.env.KILL_AT), process.env.KILL_BELOW ?? '/']
let changes = 0

function step(): void {
  if (++changes === at) process.kill(process.pid, 'SIGKILL')
}

/** Workspaces are written through open directories. */
const isBelow = (path: unknown): boolean => /^\/proc\/self\/fd/.test(String(path)) || String(path).startsWith(below)
const isWrite = (flags: unknown): boolean =>
  typeof flags === 'number' ? (flags & (O_WRONLY | O_RDWR | O_CREAT)) !== 0 : flags !== undefined && flags !== 'r'

for (const name of ['link', 'mkdir', 'rename', 'rm', 'rmdir', 'unlink'] as const) {
  const change = fs[name]
  Object.assign(fs, {
    [name]: (path: never, ...rest: never[]) => {
      if (isBelow(path)) step()
      return Reflect.apply(change, fs, [path, ...rest])
    },
  })
}
const { open } = fs
fs.open = async (path, flags, mode) => {
  if (!isBelow(path) || !isWrite(flags)) return open(path, flags, mode)
  step()
  const handle = await open(path, flags, mode)
  const { writeFile } = handle
  handle.writeFile = async (...args) => {
    step()
    return Reflect.apply(writeFile, handle, args)
  }
  return handle
}
syncBuiltinESMExports()
