// Reads server-sent events, in the browser and in Node. EventSource hides why a server refused it, cannot resume at a given id,
// and does not notice a dead connection.
//
// Not `eventsource-parser` 4.1.3: it gives the same events and takes 0.4 µs for one where this takes 1 µs, but brings 24 kB for
// these 40 lines. The page, a 53 kB script made without a bundler, would carry it too or keep a second reader.

export interface SseEvent {
  /** The last id of the stream so far, to resume after; empty before the first. */
  readonly id: string
  /** `message` unless the stream names another. */
  readonly event: string
  readonly data: string
}

export class SseDecoder {
  readonly #decoder = new TextDecoder()
  #rest = ''
  /** The last piece ended with CR: a leading LF completes that line break. */
  #isAfterReturn = false
  #id = ''
  #event = ''
  #data: string[] = []

  /** Returns the events that this piece completes. Only the new piece is split, so a long line in many pieces takes linear time. */
  push(piece: Uint8Array): SseEvent[] {
    let text = this.#decoder.decode(piece, { stream: true })
    if (text === '') return []
    if (this.#isAfterReturn && text.startsWith('\n')) text = text.slice(1)
    this.#isAfterReturn = text.endsWith('\r')
    const lines = text.split(/\r\n|\n|\r/)
    lines[0] = this.#rest + lines[0]
    this.#rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.#readLine(line))
  }

  #readLine(line: string): SseEvent[] {
    if (line === '') return this.#endEvent()
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
    else if (field === 'id' && !value.includes('\0')) this.#id = value
    return []
  }

  #endEvent(): SseEvent[] {
    const [event, data] = [this.#event || 'message', this.#data]
    this.#event = ''
    this.#data = []
    return data.length === 0 ? [] : [{ id: this.#id, event, data: data.join('\n') }]
  }
}
