// A served instance with tool sockets for its folders, and turns that the test creates.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import type { ChannelResolver } from '../../src/core/delivery/channel.ts'
import { groupDirs, layout } from '../../src/core/layout.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { type ConversationHost, openConversationHost } from './conversation-host.ts'
import { type EngineName, type TestHost, testHost } from './host.ts'
import { type ServedHost, type ServedHostOptions, serveHost } from './served-host.ts'
import { openTools, type SocketSession, type SocketSessionOptions } from './socket-client.ts'
import { tempDir } from './temp.ts'

export interface GatedHost extends ConversationHost, Pick<ServedHost, 'logged' | 'close'> {
  /** The socket of a folder. */
  path(folder: string): string
  open(folder: string, options?: SocketSessionOptions): Promise<SocketSession>
  /** A raw connection. */
  wire(folder: string): Promise<RpcConnection>
}

export interface GatedHostOptions extends Omit<ServedHostOptions, 'on'> {
  readonly engine?: EngineName
  /** A new store by default. */
  readonly store?: StoreAddress
  /** The data directory; a new one by default. */
  readonly root?: string
  readonly channels?: ChannelResolver
  /** Runs before the instance is served. */
  before?(on: TestHost): Promise<void>
}

export async function openGatedHost(t: TestContext, options: GatedHostOptions = {}): Promise<GatedHost> {
  const { engine = 'sqlite', store, root = tempDir(t), before, channels, daemons = ['gated'], ...rest } = options
  const plain = await testHost(t, engine, store)
  const place = layout(root)
  const on: TestHost = { ...plain, host: { ...plain.host, layout: place, ...(channels ? { channels } : {}) } }
  await (before?.(on) ?? on.groups('main', 'team', 'team/sub', 'other'))
  const served = await serveHost(t, { on, daemons, ...rest })
  const path = (folder: string): string => groupDirs(place, folder).socket
  return {
    ...(await openConversationHost(t, engine, on)),
    logged: served.logged,
    close: served.close,
    path,
    open: (folder, session) => openTools(t, path(folder), session),
    wire: (folder) => openRpcConnection(t, path(folder)),
  }
}

export interface RpcConnection {
  readonly socket: Socket
  /** All received lines. */
  readonly lines: readonly string[]
  send(...parts: (string | Uint8Array | object)[]): void
  /** Parses the next line; undefined if the connection has ended. */
  next(): Promise<RpcAnswer | undefined>
  closed: Promise<unknown>
}

export interface RpcAnswer {
  readonly jsonrpc?: string
  readonly id?: string | number | null
  readonly result?: Record<string, unknown>
  readonly error?: { readonly code: number; readonly message: string }
}

/** Sends bytes and text unchanged, and an object as a JSON line. */
export async function openRpcConnection(t: TestContext, path: string): Promise<RpcConnection> {
  const socket = connect({ path, allowHalfOpen: true })
  t.after(() => socket.destroy())
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.on('error', () => socket.destroy())
  await once(socket, 'connect')
  const lines: string[] = []
  let [rest, taken] = ['', 0]
  let wake = (): void => {}
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    const parts = `${rest}${text}`.split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
    wake()
  })
  let isOver = false
  socket.on('end', () => {
    isOver = true
    wake()
    socket.end()
  })
  socket.on('close', () => {
    isOver = true
    wake()
  })
  return {
    socket,
    lines,
    closed,
    send: (...parts) => {
      for (const part of parts)
        socket.write(typeof part === 'string' || part instanceof Uint8Array ? part : `${JSON.stringify(part)}\n`)
    },
    next: async () => {
      while (lines.length === taken && !isOver)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      const line = lines[taken]
      taken++
      return line === undefined ? undefined : JSON.parse(line)
    },
  }
}
