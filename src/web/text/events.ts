// Server-sent events from a plain response. EventSource would do the same but hides why it was refused, cannot be told
// where to resume, and does not notice when a connection has died in its sleep.

export interface ServerEvent {
  readonly id: string
  readonly event: string
  readonly data: string
}

/** Takes text in any pieces and answers the events that are complete. */
export class EventReader {
  #rest = ''
  #id = ''
  #event = ''
  #data: string[] = []

  read(piece: string): ServerEvent[] {
    const text = this.#rest + piece
    // A return at the end of a piece may be half of a line's end.
    const whole = text.endsWith('\r') ? text.slice(0, -1) : text
    const lines = whole.split(/\r\n|\n|\r/)
    this.#rest = (lines.pop() ?? '') + text.slice(whole.length)
    return lines.flatMap((line) => this.#line(line))
  }

  #line(line: string): ServerEvent[] {
    if (line === '') return this.#end()
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
    else if (field === 'id' && !value.includes('\0')) this.#id = value
    return []
  }

  #end(): ServerEvent[] {
    const [event, data] = [this.#event || 'message', this.#data]
    this.#event = ''
    this.#data = []
    return data.length === 0 ? [] : [{ id: this.#id, event, data: data.join('\n') }]
  }
}
