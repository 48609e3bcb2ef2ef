// One request to an adapter and its answer. What matters is how far a request got that failed: nothing was written, or it may
// have been understood. So each has a connection of its own: on one that is kept, nobody could tell.
import { createReadStream } from 'node:fs'
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { ChannelError } from '../../core/delivery/channel.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { type AddressPolicy, hasForbiddenAddress, NOT_PRIVATE, restrictedLookup } from '../address-policy.ts'

const CONNECT_MS = 5000
/** More than that no adapter has to say. */
const ANSWER_MAX = 8 * 1024 * 1024

/** A file between what stands before and after it. */
export interface FileBody {
  readonly head: Buffer
  readonly path: string
  readonly size: number
  readonly tail: Buffer
}

export interface AdapterRequest {
  readonly method: 'GET' | 'POST'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer | FileBody | undefined
  readonly timeoutMs: number
  readonly addresses: AddressPolicy
  readonly signal?: AbortSignal | undefined
}

export interface AdapterResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** As far as it came: the status says already whether it was done. */
  readonly text: string
}

export function sendAdapterRequest(asked: AdapterRequest): Promise<AdapterResponse> {
  return new Promise((resolve, reject) => {
    const { url, method, headers, addresses, signal } = asked
    if (hasForbiddenAddress(url, addresses))
      return reject(new ChannelError('transient', `${url.origin} cannot be reached (${NOT_PRIVATE})`))
    const options = {
      method,
      headers,
      agent: false,
      lookup: restrictedLookup(addresses),
      ...(signal ? { signal } : {}),
    }
    const isSecure = url.protocol === 'https:'
    const sent = (isSecure ? requestSecure : requestPlain)(url, options)
    let isWritten = false
    let isAnswered = false
    let broke: ChannelError | undefined
    let late: NodeJS.Timeout | undefined
    const connecting = setTimeout(() => sent.destroy(new Error('no connection in time')), CONNECT_MS)
    sent.once('socket', (socket) => {
      socket.once(isSecure ? 'secureConnect' : 'connect', () => {
        isWritten = true
        clearTimeout(connecting)
        // From here on: what only waits for a connection has its own limit, and is no answer that is missing.
        late = setTimeout(() => sent.destroy(new Error('no answer in time')), asked.timeoutMs)
      })
    })
    const settle = (): void => {
      clearTimeout(late)
      clearTimeout(connecting)
    }
    sent.on('error', (error) => {
      // What was answered counts, even where the end of it is missing.
      if (isAnswered) return
      settle()
      const said = `${url.origin} ${isWritten ? 'broke off' : 'cannot be reached'} (${errnoCode(error) ?? error.message})`
      reject(broke ?? new ChannelError(isWritten ? 'unclear' : 'transient', said))
    })
    sent.once('response', (answer) => {
      isAnswered = true
      void textOf(answer).then((text) => {
        settle()
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text })
      })
    })
    write(sent, asked.body).catch((error) => {
      // Half a file is no request: an adapter that checks the length has done nothing with it.
      broke = new ChannelError('permanent', `the file cannot be read (${errnoCode(error) ?? 'it has changed'})`)
      sent.destroy(broke)
    })
  })
}

async function write(sent: ClientRequest, body: AdapterRequest['body']): Promise<void> {
  if (body === undefined || !('head' in body)) {
    sent.end(body)
    return
  }
  const { head, path, size, tail } = body
  sent.write(head)
  if (size > 0 && !(await piped(createReadStream(path, { start: 0, end: size - 1 }), sent))) return
  sent.end(tail)
}

/** Whether it went through. An end of the connection is told by the connection, and an answer may come before the end. */
async function piped(file: ReturnType<typeof createReadStream>, sent: ClientRequest): Promise<boolean> {
  try {
    await pipeline(file, sent, { end: false })
    return true
  } catch (error) {
    if (error instanceof Error && 'path' in error) throw error
    return false
  }
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of answer) {
      length += chunk.length
      if (length > ANSWER_MAX) break
      chunks.push(chunk)
    }
  } catch {
    // It broke off; what came is what there is.
  }
  return Buffer.concat(chunks).toString()
}
