// Log lines for people at a terminal, from JSON lines. Replaces pino-pretty, which with its 14 dependencies takes 2 MB of an
// installation for these few lines.
import { cell, isPlainText } from '../command-line/print.ts'
import { environment } from '../environment.ts'
import { isObject, tryParseJson } from '../text/json.ts'
import { type LogSink, LogStream } from './log-stream.ts'

const COLOURS: Readonly<Record<string, number>> = { DEBUG: 34, INFO: 32, WARN: 33, ERROR: 31 }

export class ReadableLogStream implements LogSink {
  readonly #stream: LogSink
  readonly #coloured: boolean

  constructor(stream: LogSink = new LogStream(), coloured = !isPlainText(environment())) {
    this.#stream = stream
    this.#coloured = coloured
  }

  get dropped(): number {
    return this.#stream.dropped
  }

  write(lines: string): void {
    const readable = lines.split('\n').map((line) => (line === '' ? '' : readableLogLine(line, this.#coloured)))
    this.#stream.write(readable.join('\n'))
  }
}

/** `[12:34:56.789] INFO: message {"further":"members"}`; a line that is not a JSON object stays as it is. */
export function readableLogLine(line: string, coloured = false): string {
  const entry = tryParseJson(line)
  if (!isObject(entry)) return cell(line)
  const { time, level, msg, ...rest } = entry
  const paint = (text: string, colour: number | undefined): string =>
    coloured && colour !== undefined ? `\u001b[${colour}m${text}\u001b[39m` : text
  const label = typeof level === 'string' ? level.toUpperCase() : 'LOG'
  const parts = [
    `[${clockTime(time)}]`,
    `${paint(cell(label), COLOURS[label])}:`,
    ...(msg === undefined ? [] : [paint(cell(String(msg)), 36)]),
    // Control characters below U+0020 are escaped by JSON, the others by `cell`.
    ...(Object.keys(rest).length === 0 ? [] : [cell(JSON.stringify(rest))]),
  ]
  return parts.join(' ')
}

/** The time of day on this machine. */
function clockTime(time: unknown): string {
  const date = new Date(typeof time === 'string' || typeof time === 'number' ? time : Number.NaN)
  if (Number.isNaN(date.getTime())) return '--:--:--.---'
  const pad = (value: number, digits = 2): string => String(value).padStart(digits, '0')
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`
}
