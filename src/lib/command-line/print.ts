// Prints command output: data to stdout, messages to stderr. Tables are aligned on a terminal and tab-separated in pipes.
import type { SettingSource } from '../settings.ts'

/** An output stream. Never throws: a closed pipe is not an error of the command. */
export interface OutputStream {
  write(text: string): void
  readonly isTerminal: boolean
  /** Columns of the terminal, if known. */
  readonly width?: number | undefined
}

export interface PrintOptions {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  /** NO_COLOR is set, or the terminal has no colours. */
  readonly plain: boolean
  readonly json: boolean
}

export type Colour = 'red' | 'green' | 'yellow'

export interface PrintedTable<T> {
  readonly rows: readonly T[]
  /** Header to cell. */
  readonly columns: Readonly<Record<string, (row: T) => string | number>>
  /** Printed instead of an empty table. */
  readonly empty: string
  /** Tab-separated even on a terminal. See docs/decisions.md#command-output. */
  readonly tabs?: true
  readonly header?: false
}

export interface Printer {
  /** A line of data. */
  line(text: string): void
  /** Prints data unchanged, without adding a line break. */
  raw(text: string): void
  /** Rows as a table, or with --json as they are. */
  table<T>(table: PrintedTable<T>): void
  /** `name: value` lines, or with --json the unchanged `value`. */
  record(lines: Readonly<Record<string, string | number>>, value: unknown): void
  /** A message on stderr. */
  say(text: string): void
  warn(text: string): void
  paint(colour: Colour, text: string): string
  /** For stderr. */
  dim(text: string): string
  readonly json: boolean
}

const PAINT: Readonly<Record<Colour, number>> = { red: 31, green: 32, yellow: 33 }

export function printer({ stdout, stderr, plain, json }: PrintOptions): Printer {
  const painted = (out: OutputStream, colour: Colour, text: string): string =>
    out.isTerminal && !plain ? `\u001b[${PAINT[colour]}m${text}\u001b[39m` : text
  const line = (text: string): void => stdout.write(`${text}\n`)
  const say = (text: string): void => stderr.write(`${text}\n`)
  const asJson = (value: unknown): void => line(JSON.stringify(value, null, 2))
  return {
    json,
    line,
    say,
    raw: (text) => stdout.write(text),
    warn: (text) => say(`${painted(stderr, 'yellow', 'warning:')} ${text}`),
    paint: (colour, text) => painted(stdout, colour, text),
    dim: (text) => (stderr.isTerminal && !plain ? `\u001b[2m${text}\u001b[22m` : text),
    table: (table) => {
      if (json) asJson(table.rows)
      else if (table.rows.length === 0) say(table.empty)
      else for (const text of tableLines(table, stdout.isTerminal && !table.tabs)) line(text)
    },
    record: (lines, value) => {
      if (json) asJson(value)
      else for (const [name, text] of Object.entries(lines)) line(`${name}: ${cell(text)}`)
    },
  }
}

function tableLines<T>({ rows, columns, header }: PrintedTable<T>, aligned: boolean): string[] {
  const body = rows.map((row) => Object.values(columns).map((show) => cell(show(row))))
  const lines = header === false ? body : [Object.keys(columns), ...body]
  if (!aligned) return lines.map((cells) => cells.join('\t'))
  const widths = Object.keys(columns).map((_, at) => Math.max(...lines.map((cells) => [...(cells[at] ?? '')].length)))
  // The last column is not padded, so a long one does not wrap into blank lines.
  return lines.map((cells) =>
    cells
      .map((text, at) => padded(text, at, widths))
      .join('  ')
      .trimEnd(),
  )
}

function padded(text: string, at: number, widths: readonly number[]): string {
  return at === widths.length - 1 ? text : text + ' '.repeat((widths[at] ?? 0) - [...text].length)
}

/** Escapes control characters: a tab would start a column, a line break a row, and an escape could repaint the terminal. */
export function cell(value: string | number): string {
  return String(value).replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (character) =>
    JSON.stringify(character)
      .slice(1, -1)
      .replace(/^[^\\]$/, escaped),
  )
}

function escaped(character: string): string {
  return `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`
}

export function isPlainText(environment: SettingSource): boolean {
  return Boolean(environment.get('NO_COLOR')) || environment.get('TERM') === 'dumb'
}
