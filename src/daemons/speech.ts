// Speech from a service that speaks the OpenAI protocol. What was spoken once is kept for a while: the same words in the
// same voice are not paid for twice.
import { createHash } from 'node:crypto'
import { mkdir, readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Speech, Spoken } from '../core/speech.ts'
import { refuseDisk, writeAtomic } from '../lib/atomic-file.ts'
import { Refusal, refuse } from '../lib/refusal.ts'

const TIMEOUT_MS = 15_000
const SOUND_BYTES_MAX = 20 * 1024 * 1024
const KEPT_MS = 7 * 24 * 3_600_000

export interface SpeechOptions {
  /** Where the service is, with or without `/v1`; `/v1/audio/speech` comes after it. */
  readonly url: string
  readonly model: string
  /** The instance's own voice. */
  readonly voice: string
  readonly key?: string | undefined
  /** Where the sounds are kept. */
  readonly dir: string
  readonly timeoutMs?: number | undefined
}

export function openSpeech(options: SpeechOptions): Speech {
  const { model, dir } = options
  const underWay = new Map<string, Promise<Spoken>>()
  return {
    say: (text, voice = options.voice) => {
      const name = createHash('sha256').update([text, voice, model].join('\u0000')).digest('hex')
      const path = join(dir, `${name}.ogg`)
      const saying = underWay.get(path) ?? spoken(options, path, text, voice).finally(() => underWay.delete(path))
      underWay.set(path, saying)
      return saying
    },
  }
}

async function spoken(options: SpeechOptions, path: string, text: string, voice: string): Promise<Spoken> {
  const said = { path, mime: 'audio/ogg' }
  const now = new Date()
  // Used again, so kept for longer.
  const isKept = await utimes(path, now, now).then(
    () => true,
    () => false,
  )
  if (isKept) return said
  const sound = await ask(options, text, voice)
  await mkdir(options.dir, { recursive: true, mode: 0o700 }).catch((error) => refuseDisk(error, 'make', options.dir))
  await writeAtomic(path, sound, 0o600)
  await sweep(options.dir, now.getTime() - KEPT_MS)
  return said
}

async function ask(options: SpeechOptions, input: string, voice: string): Promise<Uint8Array> {
  const { url, model, key, timeoutMs = TIMEOUT_MS } = options
  try {
    const answer = await fetch(`${url.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1/audio/speech`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      body: JSON.stringify({ model, voice, input, response_format: 'opus' }),
      signal: AbortSignal.timeout(timeoutMs),
      redirect: 'error',
    })
    if (!answer.ok) {
      await answer.body?.cancel()
      return refuse('unavailable', `the speech service answered ${answer.status}`)
    }
    return await soundOf(answer)
  } catch (error) {
    if (error instanceof Refusal) throw error
    const isLate = error instanceof Error && error.name === 'TimeoutError'
    return refuse('unavailable', isLate ? 'the speech service took too long' : 'the speech service does not answer')
  }
}

async function soundOf(answer: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length
    if (bytes > SOUND_BYTES_MAX) refuse('unavailable', 'the speech service answered with too much')
    chunks.push(chunk)
  }
  return bytes === 0 ? refuse('unavailable', 'the speech service answered with nothing') : Buffer.concat(chunks)
}

async function sweep(dir: string, before: number): Promise<void> {
  for (const name of await readdir(dir)) {
    const path = join(dir, name)
    const used = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => before,
    )
    if (used < before) await rm(path, { force: true })
  }
}
