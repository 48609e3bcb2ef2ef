// Fetches the files of messages from Discord's file servers.
import { setTimeout as pause } from 'node:timers/promises'
import type { ConnectorContext, EventReceipt, InboundAttachment, InboundEvent } from '../process/port.ts'
import { discordRootOf } from './discord-api.ts'
import type { DiscordFile } from './discord-events.ts'

/** svc takes no larger events. */
const DOWNLOAD_MAX = 20 * 1024 * 1024
const DOWNLOAD_MS = 120_000
const ATTEMPTS = 3
const PAUSE_MS = 1000
const HOSTS = new Set(['cdn.discordapp.com', 'media.discordapp.net'])

export class FileDownloads {
  readonly #context: ConnectorContext
  /** Events with files follow each other, as they are in memory until svc has stored them. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(context: ConnectorContext) {
    this.#context = context
  }

  storeWith(event: InboundEvent, files: readonly DiscordFile[]): Promise<EventReceipt> {
    const stored = this.#last.then(async () => this.#context.receive(await this.#withFiles(event, files)))
    this.#last = stored.catch(() => undefined)
    return stored
  }

  async #withFiles(event: InboundEvent, files: readonly DiscordFile[]): Promise<InboundEvent> {
    const attachments: InboundAttachment[] = []
    const missing: string[] = []
    let left = DOWNLOAD_MAX
    for (const file of files) {
      const data = await this.#download(file, left)
      if (data === undefined) missing.push(`[the file ${file.name} is too large to receive, or gone]`)
      else attachments.push({ mime: file.mime, filename: file.name, data })
      left -= data?.length ?? 0
    }
    const content = [event.content, ...missing].filter((text) => text !== undefined).join('\n')
    return { ...event, attachments, content: content === '' ? undefined : content }
  }

  /** Undefined if the platform does not give it. */
  async #download(file: DiscordFile, max: number): Promise<Uint8Array | undefined> {
    const { log, signal } = this.#context
    if ((file.size ?? 0) > max || !this.#isOfPlatform(file.url)) return undefined
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#fetch(file.url, max)
      } catch (error) {
        if (signal.aborted) throw error
        if (attempt === ATTEMPTS) break
        await pause(PAUSE_MS * attempt, undefined, { signal })
      }
    }
    log.warn({ attempts: ATTEMPTS }, 'a file of Discord cannot be received')
    return undefined
  }

  async #fetch(url: string, max: number): Promise<Uint8Array | undefined> {
    const signal = AbortSignal.any([this.#context.signal, AbortSignal.timeout(DOWNLOAD_MS)])
    const response = await fetch(url, { signal, redirect: 'error' })
    if (response.status >= 500 || response.status === 429) throw new Error(`status ${response.status}`)
    if (!response.ok) return undefined
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of response.body ?? []) {
      size += chunk.length
      if (size > max) return undefined
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  }

  /** An event could name any other address. */
  #isOfPlatform(url: string): boolean {
    if (!URL.canParse(url)) return false
    const { protocol, hostname, origin } = new URL(url)
    if (protocol === 'https:' && HOSTS.has(hostname)) return true
    return this.#context.apiUrl !== undefined && origin === new URL(discordRootOf(this.#context)).origin
  }
}
