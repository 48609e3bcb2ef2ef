// Speech to text by a service with the OpenAI API: voice messages get their transcript before the turn that answers them runs.
// A turn never fails because of the service; its voice messages then have no transcript.
import { z } from 'zod'
import { chatFiles, readFilesOfMessages, storedFileName } from '../../core/files/chat-files.ts'
import { chatFilesDir, type Layout } from '../../core/layout.ts'
import { type Envelope, envelopes } from '../../core/messages/envelopes.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { Directory } from '../../lib/files/directory.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { readAttachments, readMediaFile } from './attachments.ts'

/** For all voice messages of a turn together. */
const TURN_MS = 60_000
const FILES_MAX = 10
/** The limit of usual services. */
const AUDIO_BYTES_MAX = 25 * 1024 * 1024
const RESPONSE_BYTES_MAX = 1024 * 1024
/** Characters of a transcript: about half an hour of speech. */
const TRANSCRIPT_MAX = 32_768

export interface TranscriptionService {
  /** Base URL, with or without `/v1`. */
  readonly url: string
  readonly model: string
  readonly key?: string | undefined
  readonly timeoutMs?: number | undefined
}

interface TranscriptionContext {
  readonly host: Pick<InstanceHost, 'engine'>
  readonly layout: Layout
  readonly service: TranscriptionService
  warn(message: string): void
}

interface VoiceMessage {
  /** By which services tell the format. */
  readonly extension: string
  readonly type: string
  read(): Promise<Uint8Array | undefined>
  save(tx: Tx, transcript: string): Promise<unknown>
}

/** Stores the transcripts of the turn's voice messages that have none. Returns the turn with them. */
export async function transcribeMessages(
  context: TranscriptionContext,
  claimed: ClaimedTurn,
  stop: AbortSignal,
): Promise<ClaimedTurn> {
  const { host, service, warn } = context
  const { turn, messages } = claimed
  const envelopesOf = new Map(messages.map(({ envelope, message }) => [message.seq, envelope]))
  const found = [...(await findChatFiles(context, claimed)), ...findAttachments(context, claimed, envelopesOf)]
  const pending = found.slice(0, FILES_MAX)
  const signal = AbortSignal.any([stop, AbortSignal.timeout(service.timeoutMs ?? TURN_MS)])
  const faults: string[] = []
  for (const voice of pending) {
    try {
      const transcript = await requestTranscript(service, voice, await readAudio(voice), signal)
      await host.engine.transaction((tx) => voice.save(tx, transcript))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      faults.push(error.message)
    }
    if (signal.aborted) break
  }
  if (faults.length > 0 && !stop.aborted) warn(`turn ${turn.id}: a voice message has no transcript: ${faults[0]}`)
  return { ...claimed, messages: messages.map((each) => ({ ...each, envelope: envelopesOf.get(each.message.seq) })) }
}

/** Files of links. */
async function findChatFiles(
  { host, layout }: TranscriptionContext,
  { messages }: ClaimedTurn,
): Promise<VoiceMessage[]> {
  const seqs = messages.map(({ message }) => message.seq)
  const found = await host.engine.read((tx) => readFilesOfMessages(tx, seqs))
  return [...found.values()].flat().flatMap((file) => {
    const { id, type, extension, size, transcript } = file
    if (!type.startsWith('audio/') || transcript !== undefined || size > AUDIO_BYTES_MAX) return []
    const read = async (): Promise<Uint8Array | undefined> => {
      await using directory = await Directory.open(chatFilesDir(layout, file))
      return (await directory?.readFile(storedFileName(file), AUDIO_BYTES_MAX))?.data
    }
    return [{ type, extension, read, save: (tx, text) => chatFiles.update(tx, { id }, { transcript: text }) }]
  })
}

/** Attachments of chat platforms, which are in the workspace by now. */
function findAttachments(
  { layout }: TranscriptionContext,
  { turn, messages }: ClaimedTurn,
  envelopesOf: Map<number, Envelope | undefined>,
): VoiceMessage[] {
  return messages.flatMap(({ message: { seq: message_seq }, envelope }) => {
    const attachments = envelope && readAttachments(envelope)
    return (attachments ?? []).flatMap(({ mime = '', filename = '', path, transcript }, at) => {
      if (!mime.startsWith('audio/') || path === undefined || transcript !== undefined) return []
      const save = async (tx: Tx, text: string): Promise<void> => {
        const current = envelopesOf.get(message_seq)
        const all = (current && readAttachments(current)) ?? []
        const saved = JSON.stringify(all.map((each, index) => (index === at ? { ...each, transcript: text } : each)))
        await envelopes.update(tx, { message_seq }, { attachments: saved })
        if (current) envelopesOf.set(message_seq, { ...current, attachments: saved })
      }
      const read = () => readMediaFile(layout, turn, path, AUDIO_BYTES_MAX)
      return [{ type: mime, extension: extensionOf(filename, mime), read, save }]
    })
  })
}

function extensionOf(filename: string, mime: string): string {
  const [, named] = /\.([A-Za-z0-9]{1,8})$/.exec(filename) ?? []
  return named?.toLowerCase() ?? mime.replace(/^audio\/(?:x-)?/, '').replace(/[^a-z0-9].*$/s, '')
}

async function readAudio({ type, read }: VoiceMessage): Promise<Blob> {
  const found = await read()
  return found ? new Blob([new Uint8Array(found)], { type }) : refuse('not_found', 'it is gone')
}

async function requestTranscript(
  { url, model, key }: TranscriptionService,
  { extension }: VoiceMessage,
  audio: Blob,
  signal: AbortSignal,
): Promise<string> {
  const form = new FormData()
  form.set('model', model)
  form.set('response_format', 'json')
  // Services tell the format by the extension. They do not learn the name that the visitor gave.
  form.set('file', audio, `audio.${extension}`)
  // Encoded first: aborting the upload of a form throws an error that nothing can catch.
  const encoded = new Response(form)
  const type = encoded.headers.get('content-type') ?? ''
  const body = await encoded.bytes()
  try {
    const response = await fetch(`${trimTrailing(url, '/').replace(/\/v1$/, '')}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { 'content-type': type, ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      body,
      signal,
      redirect: 'error',
    })
    if (response.ok) return readTranscript(await readText(response))
    await response.body?.cancel()
    return refuse('unavailable', `the speech service answered ${response.status}`)
  } catch (error) {
    if (error instanceof Refusal) throw error
    return refuse(
      'unavailable',
      signal.aborted ? 'the speech service timed out' : 'the speech service cannot be reached',
    )
  }
}

async function readText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > RESPONSE_BYTES_MAX) refuse('unavailable', 'the response of the speech service is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

const Transcription = z.object({ text: z.string() })

function readTranscript(json: string): string {
  const { data } = Transcription.safeParse(tryParseJson(json))
  if (!data) return refuse('unavailable', 'the response of the speech service has no text')
  // PostgreSQL stores no NUL.
  return data.text.trim().replaceAll('\0', '').slice(0, TRANSCRIPT_MAX).toWellFormed()
}
