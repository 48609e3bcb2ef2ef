// The threads of messages, for actions that name only the message.
import type { AdapterStore } from '../process/adapter-store.ts'
import type { Place } from '../process/port.ts'

export function rememberThread(state: AdapterStore, message: string, thread: string | undefined): void {
  if (thread !== undefined && state.cached(`thread ${message}`) !== thread) state.setCached(`thread ${message}`, thread)
}

export function threadOf(
  state: AdapterStore,
  { threadId }: Pick<Place, 'threadId'>,
  message?: string,
): string | undefined {
  return threadId ?? (message === undefined ? undefined : state.cached(`thread ${message}`))
}
