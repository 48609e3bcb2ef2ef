// An agent's side of its folder's socket: one JSON-RPC object a line. Small, because whoever starts an agent waits for it
// to load.
import { realpath } from 'node:fs/promises'
import { createConnection, type Socket } from 'node:net'
import { TextLineSplitter } from './text-line-splitter.ts'

/** What the kernel keeps of the path of a socket. */
const PATH_MAX_BYTES = 107
const PROTOCOL = '2025-11-25'

/** What the server calls a method that it cannot do at the moment. */
const UNAVAILABLE = -32053

/** The socket does not answer, or not any more; or what is behind it cannot do anything at the moment. */
export class SocketFault extends Error {}

/** It answered with an error. */
export class RpcFault extends Error {}

export interface FencedTurn {
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

interface Waiting {
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
  readonly #waiting = new Map<number, Waiting>()
  #next = 1
  #fault: SocketFault | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    const lines = new TextLineSplitter((line) => this.#onLine(line))
    socket.setEncoding('utf8').on('data', (text: string) => lines.push(text))
    socket.on('error', (error) => this.#fail(`the tool socket does not answer: ${error.message}`))
    socket.on('close', () => this.#fail('the tool socket was closed'))
  }

  /** Connects, and names the turn that it works for (decision T10). */
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
      this.#waiting.set(id, { resolve, reject })
      this.#write({ jsonrpc: '2.0', id, method, params })
    })
  }

  /** What a tool refuses is an answer; a tool that is not there, or that could not be used for a passing reason, is a fault. */
  async call(name: string, args: Readonly<Record<string, unknown>>): Promise<ToolCallResult> {
    const result = (await this.request('tools/call', { name, arguments: args })) as
      | { content?: readonly { type?: string; text?: string }[]; isError?: boolean; _meta?: Record<string, unknown> }
      | undefined
    const texts = (result?.content ?? []).flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
    const text = texts.join('\n')
    if (result?._meta?.['svc/passing'] === true) throw new SocketFault(`${name}: ${text}`)
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
    this.#fault ??= new SocketFault('it is closed')
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
      this.#fail('the tool socket answers with something else than JSON')
      return
    }
    const waiting = typeof message?.id === 'number' ? this.#waiting.get(message.id) : undefined
    if (!waiting) return
    this.#waiting.delete(Number(message.id))
    if (message.error) waiting.reject(toSocketError(message.error))
    else waiting.resolve(message.result)
  }

  #fail(sentence: string): void {
    this.#fault ??= new SocketFault(sentence)
    this.#socket.destroy()
    for (const { reject } of this.#waiting.values()) reject(this.#fault)
    this.#waiting.clear()
  }
}

function toSocketError({ code, message = 'it failed' }: NonNullable<RpcResponse['error']>): Error {
  return code === UNAVAILABLE ? new SocketFault(message) : new RpcFault(message)
}

/** A path that is too long for a socket is a link to one that is not. */
export async function resolveSocketPath(path: string): Promise<string> {
  return Buffer.byteLength(path) > PATH_MAX_BYTES ? realpath(path).catch(() => path) : path
}
