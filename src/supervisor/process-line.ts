// The ends of a front or runner of its channels to its parent and to the other one.
import { Socket } from 'node:net'
import { readEnvironment } from '../lib/environment.ts'
import { type FaultHandler, guard } from '../lib/fault-boundary.ts'
import { loadFfi } from '../lib/ffi.ts'
import { isObject, tryParseJson } from '../lib/text/json.ts'
import {
  type DaemonAddresses,
  PEER_FD,
  type PeerMessage,
  type ProcessRole,
  type ProcessStatus,
  ROLE_VARIABLE,
  type ToChild,
  type ToParent,
  TURN_VARIABLE,
  URLS_VARIABLE,
} from './messages.ts'

const ALIVE_MS = 1000
/** Of prctl(2). */
const PR_SET_PDEATHSIG = 1
const SIGKILL = 9
/** Bytes for the other process; a message for one that does not read them is dropped. */
const PEER_PENDING_MAX = 4 * 1024 * 1024

export interface ProcessLine {
  readonly role: ProcessRole
  /** The only turn to run. */
  readonly turnId: string | undefined
  /** URLs of the front before this one; undefined for the first. */
  readonly formerUrls: DaemonAddresses | undefined
  /** The processes of the instance as the parent last described them. */
  readonly processes: readonly ProcessStatus[]
  /** From now on the parent expects signs of life. */
  ready(urls?: DaemonAddresses): void
  /** Has the parent start a runner, unless there is one. */
  startRunner(): void
  sendToPeer(message: PeerMessage): void
  /** `onFault` gets the exceptions of the listener. */
  onPeerMessage(listener: (message: PeerMessage) => void, onFault: FaultHandler): void
  /** Resolves when the parent is gone. */
  readonly parentEnded: Promise<void>
  /** Lets the process end. */
  close(): void
}

/** The channel of a process that the supervisor has started; undefined for others. */
export function openProcessLine(): ProcessLine | undefined {
  const role = readEnvironment(ROLE_VARIABLE)
  if ((role !== 'front' && role !== 'runner') || !process.channel) return undefined
  endWithParent()
  const turnId = readEnvironment(TURN_VARIABLE)
  const parentEnded = Promise.withResolvers<void>()
  const listeners: ((message: PeerMessage) => void)[] = []
  const receivePeerMessage = (message: PeerMessage): void => {
    for (const listener of listeners) listener(message)
  }
  let processes: readonly ProcessStatus[] = []
  let peer = turnId === undefined ? openPeerSocket(new Socket({ fd: PEER_FD }), receivePeerMessage) : undefined
  let isFull = false
  const send = (message: ToParent): void => {
    if (isFull || !process.connected) return
    const isAccepted = process.send?.(message, undefined, undefined, () => {
      isFull = false
    })
    if (isAccepted === false) isFull = true
  }
  process.on('message', (message: ToChild, handle: unknown) => {
    if (message.kind === 'processes') processes = message.processes
    if (message.kind === 'peer') receivePeerMessage(message.message)
    if (message.kind === 'peer-socket' && handle instanceof Socket) peer = openPeerSocket(handle, receivePeerMessage)
  })
  process.once('disconnect', () => parentEnded.resolve())
  return {
    role,
    turnId,
    formerUrls: parseUrls(readEnvironment(URLS_VARIABLE)),
    get processes() {
      return processes
    },
    ready: (urls = {}) => {
      send({ kind: 'ready', urls })
      setInterval(() => send({ kind: 'alive' }), ALIVE_MS).unref()
    },
    startRunner: () => send({ kind: 'start-runner' }),
    sendToPeer: (message) => {
      if (!peer?.writable) send({ kind: 'peer', message })
      else if (peer.writableLength < PEER_PENDING_MAX) peer.write(`${JSON.stringify(message)}\n`)
    },
    onPeerMessage: (listener, onFault) => void listeners.push(guard(onFault, listener)),
    parentEnded: parentEnded.promise,
    close: () => process.channel?.unref(),
  }
}

/** Messages are lines of JSON. An error or the end of the other process closes the socket. */
function openPeerSocket(socket: Socket, receive: (message: PeerMessage) => void): Socket {
  let rest = ''
  socket.setEncoding('utf8')
  socket.on('data', (text) => {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const message = tryParseJson(line)
      // Written by `sendToPeer` of the other process.
      if (isObject(message)) receive(message as PeerMessage)
    }
  })
  socket.on('error', () => undefined)
  return socket.unref()
}

function parseUrls(text = ''): DaemonAddresses | undefined {
  const urls = tryParseJson(text)
  return isObject(urls) ? Object.fromEntries(Object.entries(urls).map(([name, url]) => [name, String(url)])) : undefined
}

/** The kernel kills this process with its parent, as if both were one. Elsewhere than on Linux `parentEnded` has to do. */
function endWithParent(): void {
  if (process.platform !== 'linux') return
  try {
    const { functions } =
      loadFfi()?.dlopen(null, {
        prctl: { arguments: ['int32', 'uint64', 'uint64', 'uint64', 'uint64'], return: 'int32' },
      }) ?? {}
    functions?.prctl(PR_SET_PDEATHSIG, BigInt(SIGKILL), 0n, 0n, 0n)
  } catch {
    // Without node:ffi.
  }
}
