// Writes server-sent events.

/** The data is one line of JSON, so no line break in it can end or forge a field. */
export function formatSseEvent(id: number, event: string, data: unknown): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Without an id: a client that reconnects does not resume after it. */
export function formatSseDelta(data: unknown): string {
  return `event: delta\ndata: ${JSON.stringify(data)}\n\n`
}

/** Like a delta, without an id. */
export function formatSseActivity(data: unknown): string {
  return `event: activity\ndata: ${JSON.stringify(data)}\n\n`
}

/** Keeps a connection open; clients ignore it. */
export const SSE_COMMENT = ': \n\n'

export const SSE_CONTENT_TYPE = 'text/event-stream'
