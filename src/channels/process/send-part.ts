// One request that sends, at most once for its key, whatever ends in between.
import { createHash } from 'node:crypto'
import type { AdapterStore } from './adapter-store.ts'
import { type Connector, type OutgoingPart, type Place, PlatformError } from './port.ts'

export interface SendContext {
  readonly connector: Connector
  readonly state: AdapterStore
}

/** The members of a message that are the same for all of its parts. */
export interface Outgoing extends Place {
  readonly key: string
  readonly replyTo?: string | undefined
  readonly agentName?: string | undefined
}

export type SendPart = (part: OutgoingPart) => Promise<string | undefined>

const UNKNOWN_END = 'an earlier attempt ended without an answer of the platform: it may have been sent'

/** Returns the platform's id, also of an earlier attempt. */
export async function sendPart(
  { connector: { repeats }, state }: SendContext,
  { key, part, ...common }: Omit<OutgoingPart, 'nonce'> & { readonly key: string; readonly part: number },
  send: SendPart,
): Promise<string | undefined> {
  const nonce = createHash('sha256').update(`${key} ${part}`).digest('hex').slice(0, 32)
  const out = { ...common, nonce }
  const earlier = state.sendAttempt(key, part)
  if (earlier?.isSent) return earlier.id
  if (earlier && repeats !== 'safe') {
    if (repeats === undefined) throw new PlatformError('refused', UNKNOWN_END)
    const found = await repeats(out, earlier)
    if (found !== undefined) {
      state.endSend(key, part, found)
      return found
    }
  }
  state.beginSend(key, part)
  try {
    const id = await send(out)
    state.endSend(key, part, id)
    return id
  } catch (error) {
    // Any other error may have come after the platform had it, and so may an earlier attempt.
    if (!earlier && error instanceof PlatformError && error.kind !== 'unclear') state.undoSend(key, part)
    throw error
  }
}

/** Throws if the platform does not have the action. */
export function perform<I, O>(action: ((input: I) => Promise<O>) | undefined, input: I): Promise<O> {
  if (action === undefined) throw new PlatformError('unsupported', 'the platform cannot do this')
  return action(input)
}
