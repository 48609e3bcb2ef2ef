// Simulated people in chats: each posts to its own chat, waits for the end of the round, and posts again.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SseDecoder, type SseEvent } from '../src/lib/http/sse-reader.ts'

export async function* eventsOf(url: string, signal?: AbortSignal): AsyncGenerator<SseEvent, void> {
  const { body } = await fetch(url, { signal: signal ?? null })
  if (!body) throw new Error(`no stream at ${url}`)
  const decoder = new SseDecoder()
  for await (const chunk of body) yield* decoder.push(chunk)
}

const ATTEMPTS = 10
const RETRY_MS = 100

/** Retries 503, as a client does; throws for every other status that is not 2xx. */
export async function post(url: string, body: string): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
    const text = await answer.text()
    if (answer.ok) return text
    if (answer.status !== 503 || attempt === ATTEMPTS) throw new Error(`${answer.status}: ${text}`)
    await sleep(RETRY_MS)
  }
}

export async function postChat(url: string, content: string, topic?: string): Promise<{ readonly turn_id: string }> {
  return JSON.parse(await post(url, JSON.stringify({ content, topic })))
}

/** Finished rounds per second while `during` runs. Throws if a round fails. */
export async function roundsPerSecond(chats: readonly string[], during: () => Promise<unknown>): Promise<number> {
  const abort = new AbortController()
  // A stream begins with the earlier messages of its topic, so each run uses a new one.
  const topic = randomUUID()
  let rounds = 0
  const talk = async (chat: string): Promise<void> => {
    await postChat(chat, 'hello', topic)
    for await (const { event, data } of eventsOf(`${chat}events?topic=${topic}`, abort.signal)) {
      if (event !== 'round_done') continue
      const { status } = JSON.parse(data)
      if (status !== 'success') throw new Error(`a round ended as ${status}`)
      rounds++
      await postChat(chat, 'hello', topic)
    }
  }
  const talking = chats.map((chat) =>
    talk(chat).catch((error) => {
      if (!abort.signal.aborted) throw error
    }),
  )
  const started = performance.now()
  await Promise.race([during(), Promise.all(talking)])
  const seconds = (performance.now() - started) / 1000
  abort.abort()
  await Promise.all(talking)
  return rounds / seconds
}
