// Server-sent events as a client reads them (the HTML standard's event stream): bytes in any pieces, events out.

export interface ServerEvent {
  /** `message` unless the stream says otherwise. */
  readonly event: string
  readonly data: string
  /** The last id that the stream gave, which a client names when it comes back; empty before the first. */
  readonly id: string
}

export class EventReader {
  readonly #decoder = new TextDecoder()
  #rest = ''
  /** The last piece ended with CR: an LF right after it belongs to the same line break. */
  #isAfterReturn = false
  #event = ''
  #data: string[] = []
  #id = ''

  /** The events that this piece completes. What a stream that ends has not completed is none. */
  push(piece: Uint8Array): ServerEvent[] {
    let text = this.#decoder.decode(piece, { stream: true })
    if (text === '') return []
    if (this.#isAfterReturn && text.startsWith('\n')) text = text.slice(1)
    this.#isAfterReturn = text.endsWith('\r')
    const lines = text.split(/\r\n|\r|\n/)
    lines[0] = this.#rest + lines[0]
    this.#rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.#take(line) ?? [])
  }

  #take(line: string): ServerEvent | undefined {
    if (line === '') return this.#end()
    const colon = line.indexOf(':')
    const [name, value] =
      colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1))]
    if (name === 'data') this.#data.push(value)
    else if (name === 'event') this.#event = value
    else if (name === 'id' && !value.includes('\u0000')) this.#id = value
    return undefined
  }

  #end(): ServerEvent | undefined {
    const [event, data] = [this.#event || 'message', this.#data]
    this.#event = ''
    this.#data = []
    return data.length === 0 ? undefined : { event, data: data.join('\n'), id: this.#id }
  }
}
