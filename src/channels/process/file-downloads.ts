// Fetches the files of events, for platforms that send only addresses.
import { setTimeout as pause } from 'node:timers/promises'
import {
  type ConnectorContext,
  type EventReceipt,
  type InboundAttachment,
  type InboundEvent,
  PlatformError,
} from './port.ts'

/** svc takes 32 MiB in base64 for all files of a message. */
const DOWNLOAD_MAX = 20 * 1024 * 1024
/** For all files of an event: those of other chats wait for it. */
const FILES_MS = 180_000
/** At a server that answers, but not with the file. */
const ATTEMPTS = 4
const PAUSE_MS = 1000
const PAUSE_MAX_MS = 15_000

interface NamedFile {
  readonly name: string
  readonly mime?: string | undefined
  readonly size?: number | undefined
}

/**
 * Undefined if the platform does not give the file. Other attempts follow an exception, unless it is a refusal: a few if the server
 * answers (`unavailable`), and as long as the time allows if the connection breaks.
 */
export type FetchFile<F> = (file: F, max: number, signal: AbortSignal) => Promise<Uint8Array | undefined>

export class FileDownloads<F extends NamedFile> {
  readonly #context: Pick<ConnectorContext, 'receive' | 'signal' | 'log'>
  readonly #fetch: FetchFile<F>
  readonly #timeoutMs: number
  readonly #pauseMs: number
  /** Events with files follow each other, as they are in memory until svc has stored them. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(
    context: Pick<ConnectorContext, 'receive' | 'signal' | 'log'>,
    fetch: FetchFile<F>,
    { timeoutMs = FILES_MS, pauseMs = PAUSE_MS } = {},
  ) {
    this.#context = context
    this.#fetch = fetch
    this.#timeoutMs = timeoutMs
    this.#pauseMs = pauseMs
  }

  storeWith(event: InboundEvent, files: readonly F[]): Promise<EventReceipt> {
    const stored = this.#last.then(async () => this.#context.receive(await this.#withFiles(event, files)))
    this.#last = stored.catch(() => undefined)
    return stored
  }

  /** With a line for each file that could not be received. */
  async #withFiles(event: InboundEvent, files: readonly F[]): Promise<InboundEvent> {
    const signal = AbortSignal.any([this.#context.signal, AbortSignal.timeout(this.#timeoutMs)])
    const attachments: InboundAttachment[] = []
    const missing: string[] = []
    let left = DOWNLOAD_MAX
    for (const file of files) {
      const data = await this.#download(file, left, signal)
      if (data === undefined) missing.push(`[the file ${file.name} is too large to receive, or gone]`)
      else attachments.push({ mime: file.mime, filename: file.name, data })
      left -= data?.length ?? 0
    }
    const content = [event.content, ...missing].filter((text) => text !== undefined).join('\n')
    return { ...event, attachments, content: content === '' ? undefined : content }
  }

  async #download(file: F, max: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const { log, signal: stopped } = this.#context
    if ((file.size ?? 0) > max) return undefined
    for (let attempt = 1; ; attempt++) {
      try {
        signal.throwIfAborted()
        return await this.#fetch(file, max, signal)
      } catch (error) {
        if (stopped.aborted) throw error
        const kind = error instanceof PlatformError ? error.kind : undefined
        const isFinal = kind === 'refused' || (kind === 'unavailable' && attempt >= ATTEMPTS)
        if (isFinal || signal.aborted) {
          log.warn({ attempts: attempt }, 'a file cannot be received')
          return undefined
        }
        await pause(Math.min(PAUSE_MAX_MS, this.#pauseMs * 2 ** Math.min(attempt - 1, 10)), undefined, {
          signal,
        }).catch(() => undefined)
      }
    }
  }
}

/** Undefined if it is larger. */
export async function readAtMost(response: Response, max: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > max) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
