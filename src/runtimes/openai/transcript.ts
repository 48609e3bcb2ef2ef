// Sessions of the runtime openai: the messages so far, as JSON files in HOME. The oldest turns are dropped over a size limit.
import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { RunFault } from '../runtime.ts'
import type { CompletionMessage } from './completion.ts'
import type { OpenaiTask } from './task.ts'

const CHARS_MAX = 400_000

interface Session {
  readonly id: string
  readonly messages: readonly CompletionMessage[]
}

export async function openSession({ home, sessionId, parentSessionId }: OpenaiTask): Promise<Session> {
  if (sessionId !== undefined) {
    const messages = await readMessages(home, sessionId)
    if (!messages) throw new RunFault('session', 'its session does not exist or is damaged')
    return { id: sessionId, messages }
  }
  const inherited = parentSessionId === undefined ? undefined : await readMessages(home, parentSessionId)
  return { id: randomUUID(), messages: inherited ?? [] }
}

export async function saveSession(home: string, { id, messages }: Session): Promise<void> {
  const folder = join(home, '.svc', 'sessions')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, `${id}.json`)
  await writeFile(`${path}.new`, JSON.stringify({ messages: trimMessages(messages) }), { mode: 0o600 })
  await rename(`${path}.new`, path)
}

async function readMessages(home: string, id: string): Promise<readonly CompletionMessage[] | undefined> {
  if (!/^[A-Za-z0-9-]{1,64}$/.test(id)) return undefined
  try {
    const { messages } = JSON.parse(await readFile(join(home, '.svc', 'sessions', `${id}.json`), 'utf8'))
    return Array.isArray(messages) ? messages : undefined
  } catch {
    return undefined
  }
}

/** Drops whole turns, oldest first: most endpoints reject a tool result without its call. */
export function trimMessages(messages: readonly CompletionMessage[], max = CHARS_MAX): readonly CompletionMessage[] {
  const sizes = messages.map((message) => JSON.stringify(message).length)
  let size = sizes.reduce((sum, each) => sum + each, 0)
  let [from, passed] = [0, 0]
  for (let at = 1; at < messages.length && size > max; at++) {
    passed += sizes[at - 1] ?? 0
    if (messages[at]?.role !== 'user') continue
    size -= passed
    ;[from, passed] = [at, 0]
  }
  return messages.slice(from)
}
