// Reads a form with files: texts into memory, files to the disk as they arrive. A form that is refused, cut off or not appended
// leaves nothing. See docs/decisions.md#files-in-chats.
import { createHash, type Hash } from 'node:crypto'
import { ChatFileWriter } from '../../core/files/chat-file-writer.ts'
import { FILES_BYTES_MAX, FILES_MAX, type MessageFiles, type StoredFile } from '../../core/files/chat-files.ts'
import { fileNameOfPart } from '../../core/files/file-names.ts'
import { uuidv7 } from '../../lib/clock.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { GrowingBuffer } from '../../lib/growing-buffer.ts'
import { clientNetwork } from '../../lib/http/client-network.ts'
import { type FormPart, type MultipartEvent, MultipartReader, type PartHead } from '../../lib/http/multipart.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { storableContentType } from './chat-body.ts'
import type { CachedLink } from './link-cache.ts'
import { chargeRate } from './link-rate.ts'
import type { LinkRequest } from './link-request.ts'
import { type BodyBudget, LINK_JSON_VALUES_MAX, mustBeWithinLimit, overBudget, tooLarge } from './request-body.ts'
import type { UploadSlots } from './upload-slots.ts'

export interface UploadContext {
  readonly host: InstanceHost
  readonly budget: BodyBudget
  readonly uploads: UploadSlots
  /** The largest body, without files. */
  bodyMax(): number
  /** The largest file. */
  attachmentMax(): number
}

interface OpenText {
  readonly kind: 'text'
  readonly head: PartHead
  readonly content: GrowingBuffer
}

interface OpenFile {
  readonly kind: 'file'
  readonly head: PartHead
  writer: ChatFileWriter | undefined
  readonly hash: Hash | undefined
}

/** A form that is being received, and then its parts. */
export class Upload {
  readonly #context: UploadContext
  readonly #link: CachedLink
  readonly #request: LinkRequest
  readonly #hash: Hash | undefined
  readonly #texts: FormPart[] = []
  readonly #writers: ChatFileWriter[] = []
  readonly #stored: StoredFile[] = []
  #part: OpenText | OpenFile | undefined
  #bytes = 0
  #fileBytes = 0
  #reserved = 0
  #slot: Parameters<UploadSlots['add']>[0] | undefined

  /** `isHashed`: whether `digest` is needed. */
  constructor(context: UploadContext, request: LinkRequest, link: CachedLink, isHashed: boolean) {
    this.#context = context
    this.#request = request
    this.#link = link
    this.#hash = isHashed ? createHash('sha256') : undefined
  }

  async receive(contentType: string): Promise<void> {
    const { incoming, response } = this.#request
    const max = this.#context.bodyMax()
    mustBeWithinLimit(incoming, max + FILES_BYTES_MAX)
    const reader = new MultipartReader(contentType, LINK_JSON_VALUES_MAX)
    if (incoming.headers.expect !== undefined) response.writeContinue()
    try {
      // The rest of a refused body is discarded, so that the client reads the response and not a connection reset.
      for await (const chunk of incoming.iterator({ destroyOnReturn: false })) {
        this.#bytes += chunk.length
        for (const event of reader.read(chunk)) await this.#take(event)
        if (this.#bytes - this.#fileBytes > max) throw tooLarge(max)
      }
      if (!incoming.complete) throw endedEarly()
      reader.end()
    } catch (error) {
      incoming.resume()
      throw isDisconnect(error) ? endedEarly() : error
    }
  }

  get texts(): readonly FormPart[] {
    return this.#texts
  }

  get fileCount(): number {
    return this.#stored.length
  }

  /** Of all parts, without the boundary: a client that sends a form again may choose another. */
  digest(): Uint8Array {
    if (!this.#hash) throw new Error('the form was not hashed')
    return this.#hash.digest()
  }

  /** Moves the files into the directory of the chat; `visitor` is the end of its JID. */
  async place(visitor: string): Promise<MessageFiles | undefined> {
    const { folder, jid } = this.#link
    if (this.#stored.length === 0 || folder === undefined) return undefined
    const place = { folder, jid: jid + visitor }
    for (const writer of this.#writers) await writer.place(place)
    return { place, stored: this.#stored }
  }

  async removeFiles(): Promise<void> {
    for (const writer of this.#writers) await writer.remove()
  }

  /** Whether the rate of the link was charged. A file costs as much as a message, also one that is refused in the end. */
  get isCharged(): boolean {
    return this.#slot !== undefined
  }

  close(): void {
    if (this.#slot) this.#context.uploads.remove(this.#slot)
    this.#context.budget.release(this.#reserved)
  }

  async #take(event: MultipartEvent): Promise<void> {
    if (event.kind === 'part') this.#part = this.#openPart(event.head)
    else if (event.kind === 'data') await this.#write(event.bytes)
    else await this.#endPart()
  }

  #openPart(head: PartHead): OpenText | OpenFile {
    if (head.filename === undefined) return { kind: 'text', head, content: new GrowingBuffer() }
    return { kind: 'file', head, writer: undefined, hash: this.#hash && createHash('sha256') }
  }

  async #write(bytes: Buffer): Promise<void> {
    const part = this.#part
    if (part?.kind === 'text') {
      if (!this.#context.budget.reserve(bytes.length)) throw overBudget()
      this.#reserved += bytes.length
      part.content.append(bytes)
      return
    }
    if (!part) return
    this.#fileBytes += bytes.length
    part.writer ??= await this.#openFile(part.head)
    const max = this.#context.attachmentMax()
    if (part.writer.size + bytes.length > max)
      refuse('too_large', `the file ${JSON.stringify(part.writer.name)} is larger than ${max} bytes`)
    if (this.#fileBytes > FILES_BYTES_MAX)
      refuse('too_large', `the files together are larger than ${FILES_BYTES_MAX} bytes`)
    part.hash?.update(bytes)
    if (this.#slot) this.#slot.left -= bytes.length
    await part.writer.write(bytes)
  }

  async #openFile({ filename = '', headers }: PartHead): Promise<ChatFileWriter> {
    const { host, uploads } = this.#context
    if (!host.layout || this.#link.folder === undefined) refuse('wrong_type', 'this link does not accept files')
    if (this.#writers.length === FILES_MAX) refuse('too_large', `the message has more than ${FILES_MAX} files`)
    const { incoming, client } = this.#request
    if (!this.#slot) {
      const length = incoming.headers['content-length']
      const left = length === undefined ? FILES_BYTES_MAX : Math.max(0, Number(length) - this.#bytes)
      const slot = { link: this.#link.key, network: clientNetwork(client), left, abort: () => void incoming.destroy() }
      chargeRate(this.#link, host.clock.now())
      uploads.add(slot)
      this.#slot = slot
    }
    const rest = incoming.headers['content-length'] === undefined ? 0 : this.#slot.left
    this.#link.storage.mustHaveSpace(this.#fileBytes + rest)
    await uploads.mustHaveRoomOnDisk(host.layout)
    const declared_type = storableContentType(headers.get('content-type')) ?? undefined
    const label = { id: uuidv7(host.clock, host.random), name: fileNameOfPart(filename), declared_type }
    const writer = await ChatFileWriter.open(host.layout, label)
    this.#writers.push(writer)
    return writer
  }

  async #endPart(): Promise<void> {
    const part = this.#part
    this.#part = undefined
    if (!part) return
    const { name, filename, headers } = part.head
    const type = headers.get('content-type')
    if (part.kind === 'text') {
      const content = part.content.bytes
      this.#texts.push({ name, headers, isFile: false, content })
      return this.#addToHash({ name, type }, this.#hash && createHash('sha256').update(content))
    }
    // A form sends an empty part for an empty file input.
    if (filename === '' && !part.writer) return
    part.writer ??= await this.#openFile(part.head)
    this.#stored.push(await part.writer.finish())
    this.#addToHash({ name, filename, type }, part.hash)
  }

  #addToHash(head: object, content: Hash | undefined): void {
    if (content) this.#hash?.update(`${JSON.stringify(head)}\n`).update(content.digest())
  }
}

function endedEarly(): Refusal {
  return new Refusal('invalid', 'request body ended early')
}

function isDisconnect(error: unknown): boolean {
  return errnoCode(error) === 'ECONNRESET' || errnoCode(error) === 'ERR_STREAM_PREMATURE_CLOSE'
}
