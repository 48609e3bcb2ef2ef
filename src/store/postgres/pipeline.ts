// Sends several statements in one round trip: `begin` with the first statement of a transaction, the commit with the last.
// They share one sync message, so the server skips all statements after a failed one.
import type pg from 'pg'
import type { StoredRow, Value } from '../engine.ts'

/** Includes arrays, which the type of the driver does not. */
export type PipelineParameter = Value | readonly (string | number | boolean | null)[]

interface PipelineRequest {
  /** Statements without parameters whose results are ignored. */
  readonly before?: readonly string[]
  readonly sql: string
  readonly parameters: readonly PipelineParameter[]
  readonly hasCommit?: boolean
}

interface PipelineResult {
  readonly rows: readonly StoredRow[]
  readonly count: number
}

/** Resolves when the server is ready for the next query. */
export async function runPipeline(client: pg.ClientBase, request: PipelineRequest): Promise<PipelineResult> {
  try {
    return await new Promise<PipelineResult>((resolve, reject) => {
      client.query(new Pipeline(client, request, { resolve, reject }))
    })
  } catch (error) {
    // The stack of driver errors shows the socket, not the caller.
    if (error instanceof Error) Error.captureStackTrace(error)
    throw error
  }
}

type Field = readonly [name: string, parse: (text: string) => Value]

/** The query object of the driver, which calls it with each message of the server. */
class Pipeline implements pg.Submittable {
  readonly #client: pg.ClientBase
  readonly #request: PipelineRequest
  readonly #waiter: Pick<PromiseWithResolvers<PipelineResult>, 'resolve' | 'reject'>
  readonly #rows: Record<string, Value>[] = []
  #fields: readonly Field[] = []
  #count = 0
  #before: number

  constructor(
    client: pg.ClientBase,
    request: PipelineRequest,
    waiter: Pick<PromiseWithResolvers<PipelineResult>, 'resolve' | 'reject'>,
  ) {
    this.#client = client
    this.#request = request
    this.#waiter = waiter
    this.#before = request.before?.length ?? 0
  }

  readonly submit = (connection: pg.Connection): void => {
    const { before = [], sql, parameters, hasCommit } = this.#request
    // Send everything in one packet.
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
    if (this.#before-- === 0) this.#count = Number(/\d{1,15}$/.exec(text)?.[0] ?? 0)
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
    connection.sendCopyFail('COPY is not supported')
  }

  handleCopyData(): void {}
}

function execute(connection: pg.Connection, text: string): void {
  connection.parse({ name: '', text, types: [] }, true)
  connection.bind({}, true)
  connection.execute({}, true)
}

/** Encodes bytes as they are and everything else as text. */
function encode(value: PipelineParameter): Buffer | string | null {
  if (value === null || typeof value === 'string') return value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return isArray(value) ? `{${value.map(encodeElement).join(',')}}` : String(value)
}

function isArray(value: PipelineParameter): value is Exclude<PipelineParameter, Value> {
  return Array.isArray(value)
}

function encodeElement(value: string | number | boolean | null): string {
  if (value === null) return 'null'
  return typeof value === 'string' ? `"${value.replace(/[\\"]/g, '\\$&')}"` : String(value)
}
