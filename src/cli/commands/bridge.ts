// Connects stdin and stdout to a tool socket, for MCP clients that start a program. Adds the turn of the environment.
import { once } from 'node:events'
import { realpath } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { isObject } from '../../lib/text/json.ts'
import { defineSvcCommand } from '../command.ts'

/** The kernel's limit for the path of a socket. */
const PATH_MAX_BYTES = 107
const NEWLINE = 10

export const bridgeCommands = [
  defineSvcCommand({
    usage: 'bridge <socket>',
    about: "connect stdin and stdout to a folder's tool socket, for programs that speak the Model Context Protocol",
    example: 'bridge /srv/data/svc_demo/ipc/main/gated.sock',
    run: async ({ io, print }, { socket: path }) => {
      const socket = await openSocket(path)
      const input = io.stdin instanceof Readable ? io.stdin : Readable.from(io.stdin)
      const decoder = new TextDecoder()
      socket.on('data', (chunk: Buffer) => io.stdout.write(decoder.decode(chunk, { stream: true })))
      socket.on('end', () => socket.destroySoon())
      socket.on('error', () => socket.destroy())
      // The end of stdin closes only this direction, since responses may follow.
      void forward(input, socket, readTurnFields(io.environment))
      await once(socket, 'close')
      const hasInputEnded = input.readableEnded
      input.destroy()
      if (hasInputEnded) return 0
      print.say('svc: the server closed the connection')
      return 1
    },
  }),
]

async function openSocket(path: string): Promise<Socket> {
  try {
    // A path over the limit is a link to a shorter one.
    const shortPath = Buffer.byteLength(path) > PATH_MAX_BYTES ? await realpath(path) : path
    const socket = connect({ path: shortPath, allowHalfOpen: true })
    await once(socket, 'connect')
    return socket
  } catch (error) {
    return refuseSocket(error, path)
  }
}

function refuseSocket(error: unknown, path: string): never {
  const hint = 'svc serve <instance> opens the sockets of its folders'
  switch (errnoCode(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return refuse('not_found', `there is no socket ${path}`, hint)
    case 'ECONNREFUSED':
      return refuse('unavailable', `no server listens at ${path}`, hint)
    case 'EACCES':
    case 'EPERM':
      return refuse('forbidden', `this user may not use ${path}`)
    default:
      return refuse('unavailable', `cannot use ${path}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

async function forward(input: Readable, socket: Socket, turn: TurnFields | undefined): Promise<void> {
  try {
    await (turn ? pipeline(input, (source) => addTurnToLines(source, turn), socket) : pipeline(input, socket))
  } catch {
    socket.destroy()
  }
}

type TurnFields = Readonly<Record<string, string | number>>

/** The turn in the environment as fields of `_meta`. */
function readTurnFields(environment: SettingSource): TurnFields | undefined {
  const [turn, fence] = [environment.get('SVC_TURN'), environment.get('SVC_FENCE')]
  if (!turn) return undefined
  return { 'svc/turn': turn, ...(fence && /^\d{1,15}$/.test(fence) ? { 'svc/fence': Number(fence) } : {}) }
}

/** Splits the input into lines and adds the turn to the messages that need it. */
async function* addTurnToLines(source: AsyncIterable<Buffer>, turn: TurnFields): AsyncGenerator<Uint8Array | string> {
  let rest: Buffer[] = []
  for await (const chunk of source) {
    let at = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, at)) {
      yield addTurn(Buffer.concat([...rest, chunk.subarray(at, end + 1)]), turn)
      rest = []
      at = end + 1
    }
    rest.push(chunk.subarray(at))
  }
  yield Buffer.concat(rest)
}

function addTurn(line: Buffer, turn: TurnFields): Uint8Array | string {
  const message = parseObject(line.toString())
  const params = message?.params ?? {}
  if (typeof message?.method !== 'string' || !isObject(params)) return line
  const meta = isObject(params._meta) ? params._meta : {}
  // Protocol versions without a handshake have their version, and so the turn, in each request.
  const isStateless = Object.keys(meta).some((key) => key.endsWith('/protocolVersion'))
  if (message.method !== 'initialize' && !isStateless) return line
  return `${JSON.stringify({ ...message, params: { ...params, _meta: { ...meta, ...turn } } })}\n`
}

function parseObject(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
