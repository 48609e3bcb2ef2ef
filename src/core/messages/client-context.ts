// What the client of a link sends beside a message: its system prompt, a conversation that svc does not know, metadata of its
// page. All of it is data for the agent, marked as the client's. See docs/decisions.md#context-of-a-client.
import type { ClientContext, EarlierMessage } from './messages.ts'

/** Of all texts, in UTF-8. */
export const CLIENT_CONTEXT_MAX = 64 * 1024
/** Leaves room for the history. */
const SYSTEM_MAX = CLIENT_CONTEXT_MAX / 2
/** Of one message of the history without its text. */
const OVERHEAD = 16

interface GivenContext {
  readonly system?: string | undefined
  readonly history?: readonly EarlierMessage[] | undefined
  /** The caller limits its size. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

/** Cuts the end of the system prompt and the oldest part of the history. Undefined if there is nothing. */
export function fitClientContext({ system = '', history = [], metadata }: GivenContext): ClientContext | undefined {
  const kept = firstBytes(system, SYSTEM_MAX)
  const metadataBytes = metadata ? Buffer.byteLength(JSON.stringify(metadata)) : 0
  const earlier = lastMessages(history, CLIENT_CONTEXT_MAX - Buffer.byteLength(kept) - metadataBytes)
  const context: ClientContext = {
    ...(kept === '' ? {} : { system: kept }),
    ...(kept.length < system.length ? { is_system_cut: true } : {}),
    ...(earlier.messages.length === 0 ? {} : { history: earlier.messages }),
    ...(earlier.isCut ? { is_history_cut: true } : {}),
    ...(metadata && Object.keys(metadata).length > 0 ? { metadata } : {}),
  }
  return Object.keys(context).length === 0 ? undefined : context
}

function lastMessages(history: readonly EarlierMessage[], max: number) {
  const messages: EarlierMessage[] = []
  let left = max
  for (const { role, content } of history.toReversed()) {
    left -= OVERHEAD
    const kept = left > 0 ? lastBytes(content, left) : ''
    if (kept !== '' || (content === '' && left > 0)) messages.push({ role, content: kept })
    if (kept.length < content.length || left <= 0) return { messages: messages.reverse(), isCut: true }
    left -= Buffer.byteLength(kept)
  }
  return { messages: messages.reverse(), isCut: false }
}

/** Complete characters only. */
function firstBytes(text: string, max: number): string {
  if (Buffer.byteLength(text) <= max) return text
  return Buffer.from(text.slice(0, max))
    .subarray(0, max)
    .toString()
    .replace(/\ufffd$/, '')
}

function lastBytes(text: string, max: number): string {
  const bytes = Buffer.from(text.slice(-max))
  return Buffer.byteLength(text) <= max
    ? text
    : bytes
        .subarray(Math.max(0, bytes.length - max))
        .toString()
        .replace(/^\ufffd{1,3}/, '')
}
