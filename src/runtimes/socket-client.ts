// Client of a tool socket: one JSON-RPC object per line. It is small because every agent process loads it at start.
import { realpath } from 'node:fs/promises'
import { createConnection, type Socket } from 'node:net'
import { TextLineSplitter } from './text-line-splitter.ts'

/** The kernel's limit for the path of a Unix socket. */
const PATH_MAX_BYTES = 107
const PROTOCOL = '2025-11-25'

/** JSON-RPC error code of the server for a temporary failure. */
const UNAVAILABLE = -32053

/** The socket is closed or does not answer, or the server failed temporarily. */
export class SocketFault extends Error {}

/** The server responded with an error. */
export class RpcFault extends Error {}

interface FencedTurn {
  readonly id: string
  readonly fence: number
}

export interface ToolCallResult {
  readonly text: string
  readonly isError: boolean
}

export interface ListedTool {
  readonly name: string
  readonly description?: string
  readonly inputSchema?: Readonly<Record<string, unknown>>
}

interface PendingRequest {
  resolve(result: unknown): void
  reject(error: Error): void
}

interface RpcResponse {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code?: number; readonly message?: string }
}

export class SocketClient {
  readonly #socket: Socket
  readonly #pending = new Map<number, PendingRequest>()
  #next = 1
  #fault: SocketFault | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    const lines = new TextLineSplitter((line) => this.#onLine(line))
    socket.setEncoding('utf8').on('data', (text: string) => lines.push(text))
    socket.on('error', (error) => this.#fail(`the tool socket does not answer: ${error.message}`))
    socket.on('close', () => this.#fail('the tool socket was closed'))
  }

  /** Connects and sends the turn of all calls. See docs/decisions.md#turn-of-a-tool-call. */
  static async open(path: string, turn: FencedTurn): Promise<SocketClient> {
    const client = new SocketClient(createConnection(await resolveSocketPath(path)))
    await client.request('initialize', {
      protocolVersion: PROTOCOL,
      capabilities: {},
      clientInfo: { name: 'svc-agent', version: '1' },
      _meta: { 'svc/turn': turn.id, 'svc/fence': turn.fence },
    })
    client.#write({ jsonrpc: '2.0', method: 'notifications/initialized' })
    return client
  }

  request(method: string, params: Readonly<Record<string, unknown>>): Promise<unknown> {
    if (this.#fault) return Promise.reject(this.#fault)
    const id = this.#next++
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      this.#write({ jsonrpc: '2.0', id, method, params })
    })
  }

  /** Returns refusals of the tool as a result; throws if the tool does not exist or failed temporarily. */
  async call(name: string, args: Readonly<Record<string, unknown>>): Promise<ToolCallResult> {
    const result = (await this.request('tools/call', { name, arguments: args })) as
      | { content?: readonly { type?: string; text?: string }[]; isError?: boolean; _meta?: Record<string, unknown> }
      | undefined
    const texts = (result?.content ?? []).flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
    const text = texts.join('\n')
    if (result?._meta?.['svc/transient'] === true) throw new SocketFault(`${name}: ${text}`)
    return { text, isError: result?.isError === true }
  }

  async tools(): Promise<ListedTool[]> {
    const tools: ListedTool[] = []
    let cursor: string | undefined
    do {
      const page = (await this.request('tools/list', cursor === undefined ? {} : { cursor })) as
        | { tools?: readonly ListedTool[]; nextCursor?: string }
        | undefined
      tools.push(...(page?.tools ?? []))
      cursor = page?.nextCursor
    } while (cursor !== undefined)
    return tools
  }

  close(): void {
    this.#fault ??= new SocketFault('the tool socket was closed')
    this.#socket.end()
  }

  #write(message: object): void {
    this.#socket.write(`${JSON.stringify(message)}\n`)
  }

  #onLine(line: string): void {
    let message: RpcResponse
    try {
      message = JSON.parse(line)
    } catch {
      this.#fail('the tool socket sent a line that is not JSON')
      return
    }
    const pending = typeof message?.id === 'number' ? this.#pending.get(message.id) : undefined
    if (!pending) return
    this.#pending.delete(Number(message.id))
    if (message.error) pending.reject(toSocketError(message.error))
    else pending.resolve(message.result)
  }

  #fail(message: string): void {
    this.#fault ??= new SocketFault(message)
    this.#socket.destroy()
    for (const { reject } of this.#pending.values()) reject(this.#fault)
    this.#pending.clear()
  }
}

function toSocketError({ code, message = 'the request failed' }: NonNullable<RpcResponse['error']>): Error {
  return code === UNAVAILABLE ? new SocketFault(message) : new RpcFault(message)
}

/** A path too long for a socket is a symbolic link to a short one. */
export async function resolveSocketPath(path: string): Promise<string> {
  return Buffer.byteLength(path) > PATH_MAX_BYTES ? realpath(path).catch(() => path) : path
}
