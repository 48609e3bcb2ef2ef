// The format of server-sent events, written.

/** One event. Its data is one line of JSON, so that no line break in it can end or forge a field. */
export function eventText(id: number, event: string, data: unknown): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Keeps a connection open; a client passes over it. */
export const COMMENT = ': \n\n'

export const EVENT_STREAM = 'text/event-stream'
