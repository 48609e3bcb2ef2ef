// Several statements in one round trip: the first of a transaction goes with what begins it, the last with its commit. They
// share one sync, so the server skips all that come after one that failed.
import type pg from 'pg'
import type { StoredRow, Value } from '../engine.ts'

/** A parameter; the driver's own type has no arrays. */
export type PipelineParameter = Value | readonly (string | number | boolean | null)[]

export interface PipelineRequest {
  /** Statements without parameters whose answers are not wanted. */
  readonly before?: readonly string[]
  readonly sql: string
  readonly parameters: readonly PipelineParameter[]
  readonly hasCommit?: boolean
}

export interface PipelineResult {
  readonly rows: readonly StoredRow[]
  readonly count: number
}

/** Answered when the server is ready for the next. */
export async function runPipeline(client: pg.ClientBase, piped: PipelineRequest): Promise<PipelineResult> {
  try {
    return await new Promise<PipelineResult>((resolve, reject) => {
      client.query(new Pipeline(client, piped, { resolve, reject }))
    })
  } catch (error) {
    // Of the driver's own errors the stack leads to a socket, not to the statement.
    if (error instanceof Error) Error.captureStackTrace(error)
    throw error
  }
}

interface Waiter {
  resolve(answer: PipelineResult): void
  reject(error: unknown): void
}

type Field = readonly [name: string, parse: (text: string) => Value]

/** What the driver calls with each message of the server while this is the query that it awaits an answer to. */
class Pipeline implements pg.Submittable {
  readonly #client: pg.ClientBase
  readonly #piped: PipelineRequest
  readonly #waiter: Waiter
  readonly #rows: Record<string, Value>[] = []
  #fields: readonly Field[] = []
  #count = 0
  #before: number

  constructor(client: pg.ClientBase, piped: PipelineRequest, waiter: Waiter) {
    this.#client = client
    this.#piped = piped
    this.#waiter = waiter
    this.#before = piped.before?.length ?? 0
  }

  readonly submit = (connection: pg.Connection): void => {
    const { before = [], sql, parameters, hasCommit } = this.#piped
    // In one packet.
    connection.stream.cork()
    for (const text of before) execute(connection, text)
    connection.parse({ name: '', text: sql, types: [] }, true)
    connection.bind({ values: parameters.map(encode) }, true)
    connection.describe({ type: 'P', name: '' }, true)
    connection.execute({}, true)
    if (hasCommit) execute(connection, 'commit')
    connection.sync()
    connection.stream.uncork()
  }

  handleRowDescription({ fields }: { fields: readonly { name: string; dataTypeID: number }[] }): void {
    this.#fields = fields.map(({ name, dataTypeID }) => [name, this.#client.getTypeParser(dataTypeID, 'text')])
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    const row: Record<string, Value> = {}
    for (const [at, [name, parse]] of this.#fields.entries()) {
      const text = fields[at] ?? null
      row[name] = text === null ? null : parse(text)
    }
    this.#rows.push(row)
  }

  handleCommandComplete({ text }: { text: string }): void {
    if (this.#before-- === 0) this.#count = Number(/\d+$/.exec(text)?.[0] ?? 0)
  }

  handleReadyForQuery(): void {
    this.#waiter.resolve({ rows: this.#rows, count: this.#count })
  }

  handleError(error: unknown): void {
    this.#waiter.reject(error)
  }

  handleEmptyQuery(): void {}

  handlePortalSuspended(): void {}

  handleCopyInResponse(connection: { sendCopyFail(reason: string): void }): void {
    connection.sendCopyFail('rows are inserted, not copied')
  }

  handleCopyData(): void {}
}

function execute(connection: pg.Connection, text: string): void {
  connection.parse({ name: '', text, types: [] }, true)
  connection.bind({}, true)
  connection.execute({}, true)
}

/** Bytes go as they are, all else as text. */
function encode(value: PipelineParameter): Buffer | string | null {
  if (value === null || typeof value === 'string') return value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return isList(value) ? `{${value.map(element).join(',')}}` : String(value)
}

function isList(value: PipelineParameter): value is Exclude<PipelineParameter, Value> {
  return Array.isArray(value)
}

function element(value: string | number | boolean | null): string {
  if (value === null) return 'null'
  return typeof value === 'string' ? `"${value.replace(/[\\"]/g, '\\$&')}"` : String(value)
}
