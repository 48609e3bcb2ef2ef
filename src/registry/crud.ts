// The ordinary verbs of a table. What differs from row to row is said by the resource.
import { z } from 'zod'
import { line, pageLimit } from '../core/values.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Order, PageRequest, Table } from '../store/table.ts'
import { adminFilter, administeredRoots } from './authorization.ts'
import type { Context } from './context.ts'
import { defineVerb, type Verb } from './resource.ts'

const Cursor = line(2000)
  .meta({ pattern: '^[A-Za-z0-9_-]+$', format: 'cursor' })
  .describe('The `next` of the page before, as it was given')

export const Paging = z.object({
  limit: pageLimit(100, 1000),
  after: Cursor.optional(),
})

/** For tools that take no paging: everything, as one page. */
export const UNPAGED = { limit: Number.MAX_SAFE_INTEGER - 1 }

type Row<R extends z.ZodObject> = z.output<R>
type Keep<T> = (row: T) => boolean

/** The row as others see it: without its write-only fields. */
export function publicRowSchema<R extends z.ZodObject>(row: R): z.ZodObject {
  const hidden = Object.keys(row.shape).filter((name) => isMarked(row, name, 'writeOnly'))
  const gone: Record<string, true> = Object.fromEntries(hidden.map((name) => [name, true]))
  return row.omit(gone)
}

export function isMarked(row: z.ZodObject, name: string, mark: 'readOnly' | 'writeOnly'): boolean {
  let field: unknown = row.shape[name]
  while (field instanceof z.ZodType) {
    if (field.meta()?.[mark] === true) return true
    field = field instanceof z.ZodOptional || field instanceof z.ZodDefault ? field.unwrap() : undefined
  }
  return false
}

type FolderColumn<T> = { [K in keyof T]-?: T[K] extends string ? K : never }[keyof T] & string

export type ListResponse<N extends string, R extends z.ZodObject> = Record<N, z.output<R>[]> & { next?: string }

/** What makes the verb a tool, and who may use it. */
type ToolOptions = Pick<Verb, 'needs' | 'when' | 'reach' | 'tiers' | 'tool'>

interface ListOptions<R extends z.ZodObject, N extends string> extends ToolOptions {
  order: Order<Row<R>>
  /** The column that holds a row's folder, where a caller sees the rows of the folders that they administer. */
  folder?: FolderColumn<Row<R>>
  /** Which rows this caller may see, where not all of them or of those folders. */
  keep?(ctx: Context): Promise<Keep<Row<R>>>
  toolReply?(reply: ListResponse<N, R>): unknown
}

/** GET /: `{<name>: […], next?}`. The tool takes nothing and gives everything that the caller may see. */
export function listVerb<R extends z.ZodObject, N extends string>(
  table: Table<R>,
  name: N,
  options: ListOptions<R, N>,
) {
  const { order, folder, keep: visibleRows, toolReply, ...tool } = options
  return defineVerb({
    ...tool,
    http: 'GET /',
    reads: true,
    input: Paging,
    output: listSchema(table, name),
    toolInput: z.strictObject({}).transform(() => UNPAGED),
    toolReply: toolReply ?? ((reply) => reply),
    run: async (ctx, paging) => {
      const { below, keep: isOwn } = folder ? await ofFolders<Row<R>>(ctx, folder) : {}
      const maySee = await visibleRows?.(ctx)
      const keep = isOwn && maySee ? (row: Row<R>) => isOwn(row) && maySee(row) : (isOwn ?? maySee)
      return listPage(ctx, table, name, { order, ...paging, below, ...(keep ? { keep } : {}) })
    },
  })
}

/** The rows of folders that the caller administers: narrowed by the index to where that can be, then judged one by one. */
async function ofFolders<T>(ctx: Context, column: keyof T & string): Promise<Pick<PageRequest<T>, 'below' | 'keep'>> {
  const [paths, mayAdmin] = [await administeredRoots(ctx), await adminFilter(ctx)]
  return { below: paths && { column, paths }, keep: (row) => mayAdmin(String(row[column])) }
}

interface WriteOptions<R extends z.ZodObject, I extends z.ZodObject> extends ToolOptions {
  /** Holds the key of the row; for `create` all of it, for `update` the columns that may change. */
  input: I
  memberRules?: NonNullable<Verb['memberRules']>
  /** Names a row in errors, by its key: `gate team/**`. */
  what(key: Row<R>): string
}

interface CreateOptions<R extends z.ZodObject, I extends z.ZodObject> extends WriteOptions<R, I> {
  /** The error where the row exists; absent: `there is a <what> already`. */
  conflict?(row: Row<R>): string
  /** Refuses a row that must not be written. */
  check?(row: Row<R>): void
}

/** POST /: writes a new row and answers with it. */
export function createVerb<R extends z.ZodObject, I extends z.ZodObject>(
  table: Table<R>,
  { what, conflict, check, ...verb }: CreateOptions<R, I>,
) {
  return defineVerb<I, Row<R>>({
    http: 'POST /',
    status: 201,
    ...verb,
    output: rowSchema(table),
    run: async (ctx, given) => {
      const row = asRow<R>(given)
      check?.(row)
      if (await table.find(ctx.tx, keyOf(table, row)))
        refuse('conflict', conflict?.(row) ?? `there is a ${what(row)} already`)
      return table.insertReturning(ctx.tx, row)
    },
  })
}

interface UpdateOptions<R extends z.ZodObject, I extends z.ZodObject> extends WriteOptions<R, I> {
  /** Refuses what the change makes of the row. */
  check?(row: Row<R>): void
}

/** PATCH /{key}: changes the columns that are given and answers with the row. */
export function updateVerb<R extends z.ZodObject, I extends z.ZodObject>(
  table: Table<R>,
  { what, check, ...verb }: UpdateOptions<R, I>,
) {
  return defineVerb<I, Row<R>>({
    http: `PATCH /${keyParameter(table)}`,
    ...verb,
    output: rowSchema(table),
    run: async (ctx, given) => {
      const key = keyOf(table, given)
      const find = () => mustFindRow(ctx, table, key, what(asRow<R>(key)))
      await find()
      const patch = Object.fromEntries(Object.entries(given).filter(([column]) => !table.key.includes(column)))
      await table.update(ctx.tx, key, asRow<R>(patch))
      const row = await find()
      check?.(row)
      return row
    },
  })
}

interface RemoveOptions<R extends z.ZodObject, I extends z.ZodObject> extends WriteOptions<R, I> {
  /** The error where there is no such row; absent: `there is no <what>`. */
  missing?(key: Row<R>): string
}

/** DELETE /{key}. */
export function removeVerb<R extends z.ZodObject, I extends z.ZodObject>(
  table: Table<R>,
  { what, missing, ...verb }: RemoveOptions<R, I>,
) {
  return defineVerb({
    http: `DELETE /${keyParameter(table)}`,
    ...verb,
    run: async (ctx, given) => {
      const key = asRow<R>(keyOf(table, given))
      if ((await table.remove(ctx.tx, key)) === 0) refuse('not_found', missing?.(key) ?? `there is no ${what(key)}`)
    },
  })
}

/** As faces show it, under the schema's own name where nothing is hidden. */
function rowSchema<R extends z.ZodObject>({ row }: Table<R>): z.ZodType<Row<R>> {
  const shown = publicRowSchema(row)
  const isWhole = Object.keys(shown.shape).length === Object.keys(row.shape).length
  // What is hidden is missing from the answer alone.
  return (isWhole ? row : shown) as unknown as z.ZodType<Row<R>>
}

/** The resource declares `input` by the columns of the same row, which TypeScript cannot follow through two schemas. */
function asRow<R extends z.ZodObject>(given: object): Row<R> {
  return given as Row<R>
}

function keyOf<R extends z.ZodObject>({ key }: Table<R>, given: Readonly<Record<string, unknown>>): Partial<Row<R>> {
  return asRow<R>(Object.fromEntries(key.map((column) => [column, given[column]])))
}

/** One column by its name; a key of several is one parameter (url-key.ts). */
function keyParameter({ key }: Table<z.ZodObject>): string {
  return key.length === 1 ? `{${key[0]}}` : '{pk}'
}

/** The schema of a list's answer. */
export function listSchema<R extends z.ZodObject, N extends string>(
  table: Table<R>,
  name: N,
): z.ZodType<ListResponse<N, R>> {
  const schema = z.object({ [name]: z.array(publicRowSchema(table.row)), next: z.string().optional() })
  // The member's name is a parameter, which TypeScript widens to any text.
  return schema as unknown as z.ZodType<ListResponse<N, R>>
}

export async function listPage<R extends z.ZodObject, N extends string>(
  ctx: Context,
  table: Table<R>,
  name: N,
  request: PageRequest<Row<R>>,
): Promise<ListResponse<N, R>> {
  const hidden = new Set(table.columns.filter((column) => isMarked(table.row, column, 'writeOnly')))
  // A cursor holds the columns that order the list. Where one of them is the hash of a token, it is sealed; but whoever
  // has the store sees the hash there, and must be able to page without SECRETS_KEY.
  const isSealed = ctx.caller.kind !== 'host' && request.order.some(([column]) => hidden.has(column))
  const context = `cursor:${table.name}`
  const { after } = request
  const from = isSealed && after !== undefined ? openCursor(ctx, after, context) : after
  const page = await table.page(ctx.tx, { ...request, after: from })
  const place = page.next !== undefined && isSealed ? sealCursor(ctx, page.next, context) : page.next
  const next = place === undefined ? {} : { next: place }
  const visible = (row: Row<R>) => Object.fromEntries(Object.entries(row).filter(([column]) => !hidden.has(column)))
  // As above: one member whose name is a parameter.
  return { [name]: page.rows.map(visible), ...next } as ListResponse<N, R>
}

function sealCursor({ keyring }: Context, cursor: string, context: string): string {
  return Buffer.from(keyring.seal(cursor, context)).toString('base64url')
}

/** What does not open goes on as nothing, which the table refuses like any other text that is no cursor. */
function openCursor({ keyring }: Context, text: string, context: string): string {
  try {
    return keyring.open(Buffer.from(text, 'base64url'), context).toString()
  } catch (error) {
    if (error instanceof Refusal) return ''
    throw error
  }
}

/** The row of this key, or `not_found` with a sentence. */
export async function mustFindRow<R extends z.ZodObject>(
  ctx: Context,
  table: Table<R>,
  where: Partial<Row<R>>,
  what: string,
): Promise<Row<R>> {
  return (await table.find(ctx.tx, where)) ?? refuse('not_found', `there is no ${what}`)
}
