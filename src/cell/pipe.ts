// Real pipes for the descriptors of agents' processes, through `node:ffi`. Node would make unix sockets: a process could send
// any descriptor over them, which the kernel then closes in the thread that reads here, and they belong to the network
// namespace of this machine.
import { closeSync, fchownSync } from 'node:fs'
import { Socket } from 'node:net'
import { endianness } from 'node:os'
import type { AgentUser } from '../core/agent-user.ts'
import { loadFfi } from '../lib/ffi.ts'
import { lazy } from '../lib/lazy.ts'
import { refuse } from '../lib/refusal.ts'

const O_CLOEXEC = 0o2000000

type MakePipe = () => readonly [reader: number, writer: number]

const pipeMaker = lazy(openPipeMaker)

/** False on other systems or if this Node has no node:ffi. */
export function canOpenPipes(): boolean {
  return pipeMaker() !== undefined
}

export interface AgentPipe {
  /** The end of the other process; the caller closes it. */
  readonly theirs: number
  readonly ours: Socket
}

/** `input` is what the other process reads. The pipe belongs to `owner`, who can then open it again as /dev/stderr. */
export function openPipe(direction: 'input' | 'output', owner?: AgentUser): AgentPipe {
  const [reader, writer] = pipeMaker()?.() ?? refuse('unavailable', 'pipes need Linux and a Node with node:ffi')
  const isInput = direction === 'input'
  const [theirs, mine] = isInput ? [reader, writer] : [writer, reader]
  try {
    if (owner) fchownSync(theirs, owner.uid, owner.gid)
    const ours = new Socket({ fd: mine, readable: !isInput, writable: isInput })
    ours.on('error', () => undefined)
    return { theirs, ours }
  } catch (error) {
    for (const fd of [reader, writer]) closeSync(fd)
    throw error
  }
}

function openPipeMaker(): MakePipe | undefined {
  if (process.platform !== 'linux' || endianness() !== 'LE') return undefined
  const ffi = loadFfi()
  if (!ffi) return undefined
  const { functions } = ffi.dlopen(null, { pipe2: { arguments: ['pointer', 'int32'], return: 'int32' } })
  return () => {
    const fds = new Int32Array(2)
    if (functions.pipe2(ffi.getRawPointer(new Uint8Array(fds.buffer)), O_CLOEXEC) !== 0)
      refuse('unavailable', 'cannot open a pipe: too many open files')
    return [fds[0] ?? -1, fds[1] ?? -1]
  }
}
