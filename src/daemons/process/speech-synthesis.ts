// Text to speech by a service with the OpenAI API. Audio files are cached for a week, so that the same text is not paid for
// twice.
import { createHash } from 'node:crypto'
import { readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { SpeechAudio, SpeechSynthesizer } from '../../core/delivery/speech.ts'
import { makeDirectory, writeAtomic } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'

const TIMEOUT_MS = 15_000
const AUDIO_BYTES_MAX = 20 * 1024 * 1024
const CACHE_MS = 7 * 24 * 3_600_000

export interface SpeechOptions {
  /** Base URL, with or without `/v1`. */
  readonly url: string
  readonly model: string
  /** Default voice. */
  readonly voice: string
  readonly key?: string | undefined
  /** Cache directory. */
  readonly dir: string
  readonly timeoutMs?: number | undefined
}

export function openSpeechSynthesis(options: SpeechOptions): SpeechSynthesizer {
  const { model, dir } = options
  const pending = new Map<string, Promise<SpeechAudio>>()
  return {
    synthesize: (text, voice = options.voice) => {
      const name = createHash('sha256').update([text, voice, model].join('\u0000')).digest('hex')
      const path = join(dir, `${name}.ogg`)
      const audio =
        pending.get(path) ?? synthesizeCached(options, path, text, voice).finally(() => pending.delete(path))
      pending.set(path, audio)
      return audio
    },
  }
}

async function synthesizeCached(
  options: SpeechOptions,
  path: string,
  text: string,
  voice: string,
): Promise<SpeechAudio> {
  const audio = { path, mime: 'audio/ogg' }
  const now = new Date()
  // Touching the file extends its time in the cache.
  const isCached = await utimes(path, now, now).then(
    () => true,
    () => false,
  )
  if (isCached) return audio
  const content = await requestSpeech(options, text, voice)
  await makeDirectory(options.dir, 0o700)
  await writeAtomic(path, content, 0o600)
  await removeOldFiles(options.dir, now.getTime() - CACHE_MS)
  return audio
}

async function requestSpeech(options: SpeechOptions, input: string, voice: string): Promise<Uint8Array> {
  const { url, model, key, timeoutMs = TIMEOUT_MS } = options
  try {
    const response = await fetch(`${trimTrailing(url, '/').replace(/\/v1$/, '')}/v1/audio/speech`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      body: JSON.stringify({ model, voice, input, response_format: 'opus' }),
      signal: AbortSignal.timeout(timeoutMs),
      redirect: 'error',
    })
    if (!response.ok) {
      await response.body?.cancel()
      return refuse('unavailable', `the speech service answered ${response.status}`)
    }
    return await readAudio(response)
  } catch (error) {
    if (error instanceof Refusal) throw error
    const isTimeout = error instanceof Error && error.name === 'TimeoutError'
    return refuse('unavailable', isTimeout ? 'the speech service timed out' : 'the speech service cannot be reached')
  }
}

async function readAudio({ body }: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > AUDIO_BYTES_MAX)
      refuse('unavailable', `the audio of the speech service is larger than ${AUDIO_BYTES_MAX} bytes`)
    chunks.push(chunk)
  }
  return bytes === 0 ? refuse('unavailable', 'the speech service sent no audio') : Buffer.concat(chunks)
}

async function removeOldFiles(dir: string, before: number): Promise<void> {
  for (const name of await readdir(dir)) {
    const path = join(dir, name)
    const used = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => before,
    )
    if (used < before) await rm(path, { force: true })
  }
}
