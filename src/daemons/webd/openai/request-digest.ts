// Digests of a request: of what the client resends of its conversation, and of the whole request, by which a retry is known.
import { createHash, type Hash } from 'node:crypto'
import type { OpenaiMessage, OpenaiRequest } from './request-parser.ts'

/** Whose conversation it is. */
export interface ConversationScope {
  readonly link: Uint8Array
  readonly jid: string
}

/** What the conversation before the request is known by; undefined if it has no answer. */
export function digestOfHistory(request: OpenaiRequest, scope: ConversationScope): Uint8Array | undefined {
  if (!request.history.some(({ role }) => role === 'assistant')) return undefined
  return hashMessages(startHash(scope, request.user), request.history).digest()
}

/** Returns what the conversation will be known by when the client has an answer. Does not keep the request in memory. */
export function digesterOfAnswer(request: OpenaiRequest, scope: ConversationScope): (answer: string) => Uint8Array {
  const { history, last, user } = request
  const hash = hashMessages(startHash(scope, user), [...history, last])
  return (text) => hashMessages(hash.copy(), [{ role: 'assistant', text, files: [] }]).digest()
}

/** Of all that makes the agent's answer. Clients retry with equal bytes, but a proxy may write the JSON anew. */
export function digestOfRequest(request: OpenaiRequest, { link, jid }: ConversationScope): Uint8Array {
  const { user, choice, system, history, last, rest } = request
  const hash = startHash({ link, jid }, user).update(JSON.stringify([choice, system]))
  for (const { role, ...content } of [...history, last, ...rest]) hashContent(hash.update(role), content)
  return hash.digest()
}

function startHash({ link, jid }: ConversationScope, user: string): Hash {
  return createHash('sha256')
    .update(link)
    .update(JSON.stringify([jid, user]))
}

/** Clients trim texts, and leave out messages without one. */
function hashMessages(hash: Hash, messages: readonly OpenaiMessage[]): Hash {
  for (const { role, text, files } of messages) {
    const trimmed = text.trim()
    if (role === 'tool' || (trimmed === '' && files.length === 0)) continue
    hashContent(hash.update(role), { text: trimmed, files })
  }
  return hash
}

function hashContent(hash: Hash, { text, files }: Omit<OpenaiMessage, 'role'>): void {
  hash.update(JSON.stringify([Buffer.byteLength(text), files.map(({ data }) => data.length)])).update(text)
  for (const { data } of files) hash.update(data)
}
