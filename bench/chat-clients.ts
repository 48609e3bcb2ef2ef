// People who talk with agents: each posts to a chat of its own, waits for the end of the round, and posts again.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SseDecoder, type SseEvent } from '../src/lib/http/sse-reader.ts'

export async function* eventsOf(url: string, signal?: AbortSignal): AsyncGenerator<SseEvent, void> {
  const { body } = await fetch(url, { signal: signal ?? null })
  if (!body) throw new Error(`no stream at ${url}`)
  const reader = new SseDecoder()
  for await (const piece of body) yield* reader.push(piece)
}

const ATTEMPTS = 10
const AGAIN_MS = 100

/** The answer. A server that is busy is asked again, as a client does; any other answer that is no 2xx is an error. */
export async function post(url: string, body: string): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
    const text = await answer.text()
    if (answer.ok) return text
    if (answer.status !== 503 || attempt === ATTEMPTS) throw new Error(`${answer.status}: ${text}`)
    await sleep(AGAIN_MS)
  }
}

export async function postChat(url: string, content: string, topic?: string): Promise<{ readonly turn_id: string }> {
  return JSON.parse(await post(url, JSON.stringify({ content, topic })))
}

/** Rounds that ended in a second while `during` ran. Rounds that fail are an error. */
export async function roundsPerSecond(chats: readonly string[], during: () => Promise<unknown>): Promise<number> {
  const abort = new AbortController()
  // A stream begins with what was said before, in its topic.
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
