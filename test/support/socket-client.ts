// The official client on the tool socket of a folder, like the client of an agent.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { Client, type JSONRPCMessage, type Tool, type Transport } from '@modelcontextprotocol/client'
import { z } from 'zod'
import type { Generation } from './tools.ts'

export interface SocketToolAnswer {
  readonly isError: boolean
  readonly text: string
  /** The parsed text, if it is JSON. */
  readonly json: unknown
}

export interface SocketSession {
  readonly client: Client
  readonly socket: Socket
  call(name: string, args?: Record<string, unknown>): Promise<SocketToolAnswer>
  list(): Promise<Tool[]>
  /** Calls any method, also hidden ones. Throws protocol errors with their `code`. */
  rpc(method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>
  close(): Promise<void>
}

export interface SocketSessionOptions {
  /** The turn of the connection. */
  readonly turn?: string
  readonly fence?: number
  readonly generation?: Generation
}

export async function openTools(
  t: TestContext,
  path: string,
  { turn, fence, generation = 'handshake' }: SocketSessionOptions = {},
): Promise<SocketSession> {
  const socket = connect(path)
  await once(socket, 'connect')
  const named = {
    ...(turn === undefined ? {} : { 'svc/turn': turn }),
    ...(fence === undefined ? {} : { 'svc/fence': fence }),
  }
  const mode = generation === 'handshake' ? 'legacy' : { pin: '2026-07-28' }
  const client = new Client({ name: 'test', version: '0' }, { versionNegotiation: { mode } })
  await client.connect(socketTransport(socket, named))
  t.after(() => client.close())
  return {
    client,
    socket,
    call: async (name, args = {}) => {
      const { content, isError } = await client.callTool({ name, arguments: args })
      const [said, ...more] = content
      assert.ok(said?.type === 'text' && more.length === 0, 'an answer is one text')
      return { isError: isError === true, text: said.text, json: jsonOf(said.text) }
    },
    list: async () => (await client.listTools()).tools,
    rpc: (method, params = {}) => client.request({ method, params }, z.looseObject({})),
    close: () => client.close(),
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** One line per message; the turn of the connection is sent with `initialize`. */
function socketTransport(socket: Socket, named: Record<string, unknown>): Transport {
  const transport: Transport = {
    start: async () => {},
    send: async (message) => void socket.write(`${JSON.stringify(naming(message, named))}\n`),
    close: async () => {
      if (socket.closed) return
      socket.destroy()
      await once(socket, 'close')
    },
  }
  const decoder = new TextDecoder()
  let rest = ''
  socket.on('data', (chunk: Buffer) => {
    const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) transport.onmessage?.(JSON.parse(line))
  })
  socket.on('error', (error) => transport.onerror?.(error))
  socket.on('close', () => transport.onclose?.())
  return transport
}

/** The protocol generation without a handshake sends it with every request. */
function naming(message: JSONRPCMessage, named: Record<string, unknown>): JSONRPCMessage {
  if (Object.keys(named).length === 0 || !('method' in message)) return message
  const meta = message.params?._meta
  const isStateless = meta !== undefined && Object.keys(meta).some((key) => key.endsWith('/protocolVersion'))
  if (message.method !== 'initialize' && !isStateless) return message
  return { ...message, params: { ...message.params, _meta: { ...meta, ...named } } }
}
