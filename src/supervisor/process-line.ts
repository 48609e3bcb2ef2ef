// The end of a front or runner of the channel to its parent.
import { readEnvironment } from '../lib/environment.ts'
import { type FaultHandler, guard } from '../lib/fault-boundary.ts'
import { loadFfi } from '../lib/ffi.ts'
import { isObject, tryParseJson } from '../lib/text/json.ts'
import {
  type DaemonAddresses,
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
  const parentEnded = Promise.withResolvers<void>()
  const listeners: ((message: PeerMessage) => void)[] = []
  let processes: readonly ProcessStatus[] = []
  let isFull = false
  const send = (message: ToParent): void => {
    if (isFull || !process.connected) return
    const isAccepted = process.send?.(message, undefined, undefined, () => {
      isFull = false
    })
    if (isAccepted === false) isFull = true
  }
  process.on('message', (message: ToChild) => {
    if (message.kind === 'processes') processes = message.processes
    if (message.kind === 'peer') for (const listener of listeners) listener(message.message)
  })
  process.once('disconnect', () => parentEnded.resolve())
  return {
    role,
    turnId: readEnvironment(TURN_VARIABLE),
    formerUrls: parseUrls(readEnvironment(URLS_VARIABLE)),
    get processes() {
      return processes
    },
    ready: (urls = {}) => {
      send({ kind: 'ready', urls })
      setInterval(() => send({ kind: 'alive' }), ALIVE_MS).unref()
    },
    startRunner: () => send({ kind: 'start-runner' }),
    sendToPeer: (message) => send({ kind: 'peer', message }),
    onPeerMessage: (listener, onFault) => void listeners.push(guard(onFault, listener)),
    parentEnded: parentEnded.promise,
    close: () => process.channel?.unref(),
  }
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
