// Sends one HTTP request to an adapter. A failed request is classified by whether the adapter may have received it, so each
// request has its own connection: on a reused one this cannot be known.
import { createReadStream } from 'node:fs'
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { ChannelError, UNREACHABLE } from '../core/delivery/channel.ts'
import { guard } from '../lib/fault-boundary.ts'
import { errnoCode } from '../lib/files/atomic-file.ts'
import { type AddressPolicy, createRestrictedLookup, forbiddenAddressFault } from './address-policy.ts'

const CONNECT_TIMEOUT_MS = 5000
/** The rest of a longer response body is discarded. */
const BODY_MAX_BYTES = 8 * 1024 * 1024

/** A file with the bytes before and after it. */
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
  /** How much of the response body is read; 0 reads none. */
  readonly bodyMaxBytes?: number | undefined
  readonly addresses: AddressPolicy
  readonly signal?: AbortSignal | undefined
}

export interface AdapterResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Possibly incomplete: the status alone decides whether the request succeeded. */
  readonly text: string
}

export function sendAdapterRequest(call: AdapterRequest): Promise<AdapterResponse> {
  return new Promise((resolve, reject) => {
    const { url, method, headers, addresses, signal } = call
    const fault = forbiddenAddressFault(url, addresses)
    if (fault !== undefined) return reject(new ChannelError('transient', `${url.origin} ${UNREACHABLE} (${fault})`))
    const options = {
      method,
      headers,
      agent: false,
      lookup: createRestrictedLookup(addresses),
      ...(signal ? { signal } : {}),
    }
    const isSecure = url.protocol === 'https:'
    const request = (isSecure ? requestSecure : requestPlain)(url, options)
    let isWritten = false
    let isAnswered = false
    let fileError: ChannelError | undefined
    let responseTimer: NodeJS.Timeout | undefined
    const connectTimer = setTimeout(() => request.destroy(new Error('no connection in time')), CONNECT_TIMEOUT_MS)
    request.once('socket', (socket) => {
      socket.once(isSecure ? 'secureConnect' : 'connect', () => {
        isWritten = true
        clearTimeout(connectTimer)
        // Starts only now: a missing connection has its own timeout and is not a missing response.
        responseTimer = setTimeout(() => request.destroy(new Error('no response in time')), call.timeoutMs)
      })
    })
    const clearTimers = (): void => {
      clearTimeout(responseTimer)
      clearTimeout(connectTimer)
    }
    const fail = (error: Error): void => {
      // The response counts even if its body is incomplete.
      if (isAnswered) return
      clearTimers()
      const problem = isWritten ? 'did not answer' : UNREACHABLE
      const message = `${url.origin} ${problem} (${errnoCode(error) ?? error.message})`
      reject(fileError ?? new ChannelError(isWritten ? 'unclear' : 'transient', message))
    }
    request.on('error', guard(reject, fail))
    // Without a listener, such a response would never be reported.
    request.once('upgrade', (response, socket) => {
      isAnswered = true
      clearTimers()
      socket.destroy()
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text: '' })
    })
    request.once('response', (response) => {
      isAnswered = true
      readBody(response, call.bodyMaxBytes ?? BODY_MAX_BYTES)
        .then((text) => {
          clearTimers()
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
        })
        .catch(reject)
    })
    writeBody(request, call.body).catch((error) => {
      // An adapter that checks the length has ignored the incomplete request.
      fileError = new ChannelError('permanent', `the file cannot be read (${errnoCode(error) ?? 'it has changed'})`)
      request.destroy(fileError)
    })
  })
}

async function writeBody(request: ClientRequest, body: AdapterRequest['body']): Promise<void> {
  if (body === undefined || !('head' in body)) {
    request.end(body)
    return
  }
  const { head, path, size, tail } = body
  request.write(head)
  if (size > 0 && !(await pipeFile(createReadStream(path, { start: 0, end: size - 1 }), request))) return
  request.end(tail)
}

/** Returns false if the connection ended: the request reports that, unless the adapter answered early. Throws file errors. */
async function pipeFile(file: ReturnType<typeof createReadStream>, request: ClientRequest): Promise<boolean> {
  try {
    await pipeline(file, request, { end: false })
    return true
  } catch (error) {
    if (error instanceof Error && 'path' in error) throw error
    return false
  }
}

async function readBody(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  if (maxBytes === 0) response.destroy()
  try {
    for await (const chunk of response) {
      length += chunk.length
      if (length > maxBytes) break
      chunks.push(chunk)
    }
  } catch {
    // The connection ended early; return the part that arrived.
  }
  return Buffer.concat(chunks).toString()
}

/** Reads seconds; dates are ignored. */
export function toRetryAfterMs(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,6}$/.test(header) ? Number(header) * 1000 : undefined
}
