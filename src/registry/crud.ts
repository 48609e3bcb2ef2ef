// List, create, update and remove verbs for any table.
import { z } from 'zod'
import { groups } from '../core/groups/groups.ts'
import type { Layout } from '../core/layout.ts'
import { line, pageLimit } from '../core/values.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Order, PageRequest, Table } from '../store/table.ts'
import { adminFilter, administeredRoots, mustHaveToolForRow, type RowLabels } from './authorization.ts'
import type { Context, InstanceHost } from './context.ts'
import { defineVerb, toolArguments, type Verb } from './resource.ts'

const Cursor = line(2000)
  .meta({ pattern: '^[A-Za-z0-9_-]+$', format: 'cursor' })
  .describe('The `next` value of the previous page')

export const Paging = z.object({
  limit: pageLimit(100, 1000),
  after: Cursor.optional(),
})

/** For tools without paging arguments: one page with all rows. */
export const UNPAGED = { limit: Number.MAX_SAFE_INTEGER - 1 }

export function ascending<K extends string>(...columns: readonly K[]): (readonly [K, 'asc'])[] {
  return columns.map((column) => [column, 'asc'])
}

type Row<R extends z.ZodObject> = z.output<R>
type RowFilter<T> = (row: T) => boolean

/** The row without its write-only fields. */
function publicRowSchema<R extends z.ZodObject>(row: R): z.ZodObject {
  const hidden = Object.keys(row.shape).filter((name) => isMarked(row, name, 'writeOnly'))
  const mask: Record<string, true> = Object.fromEntries(hidden.map((name) => [name, true]))
  return row.omit(mask)
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

type ListResponse<N extends string, R extends z.ZodObject> = Record<N, z.output<R>[]> & { next?: string }

type ToolOptions = Pick<Verb, 'authorize' | 'when' | 'reach' | 'tiers' | 'tool' | 'activity'>

interface ListOptions<R extends z.ZodObject, N extends string> extends ToolOptions {
  order: Order<Row<R>>
  /** The folder column; callers see the rows of folders that they administer. */
  folder?: FolderColumn<Row<R>>
  /** A further filter by caller. */
  keep?(ctx: Context): Promise<RowFilter<Row<R>>>
  toolReply?(reply: ListResponse<N, R>): unknown
}

/** GET /: `{<name>: […], next?}`. The tool has no arguments and returns every row that the caller may see. */
export function listVerb<R extends z.ZodObject, N extends string>(
  table: Table<R>,
  name: N,
  options: ListOptions<R, N>,
) {
  const { order, folder, keep: visibleRows, toolReply, ...tool } = options
  return defineVerb({
    ...tool,
    http: 'GET /',
    isReadOnly: true,
    input: Paging,
    output: listSchema(table, name),
    toolInput: toolArguments({}, () => UNPAGED),
    toolReply: toolReply ?? ((reply) => reply),
    run: async (ctx, paging) => {
      const { below, keep: isAdministered } = folder ? await administeredRows<Row<R>>(ctx, folder) : {}
      const isVisible = await visibleRows?.(ctx)
      const keep =
        isAdministered && isVisible
          ? (row: Row<R>) => isAdministered(row) && isVisible(row)
          : (isAdministered ?? isVisible)
      return listPage(ctx, table, name, { order, ...paging, below, ...(keep ? { keep } : {}) })
    },
  })
}

/** Rows of folders that the caller administers: an index narrows them to subtrees, then each row is checked. */
export async function administeredRows<T>(
  ctx: Context,
  column: keyof T & string,
): Promise<Pick<PageRequest<T>, 'below' | 'keep'>> {
  const [paths, mayAdmin] = [await administeredRoots(ctx), await adminFilter(ctx)]
  return { below: paths && { column, paths }, keep: (row) => mayAdmin(String(row[column])) }
}

interface WriteOptions<R extends z.ZodObject, I extends z.ZodObject> extends ToolOptions {
  /** The key columns; for `create` the whole row, for `update` also the columns that may change. */
  input: I
  memberRules?: NonNullable<Verb['memberRules']>
  /** Names a row in errors, by its key: `gate team/**`. */
  label(key: Row<R>): string
}

interface CreateOptions<R extends z.ZodObject, I extends z.ZodObject> extends WriteOptions<R, I> {
  /** The error if the row exists; default: `there is a <label> already`. */
  conflict?(row: Row<R>): string
  /** Refuses an invalid row. */
  check?(row: Row<R>): void
}

/** POST /: inserts a row and returns it. */
export function createVerb<R extends z.ZodObject, I extends z.ZodObject>(
  table: Table<R>,
  { label, conflict, check, ...verb }: CreateOptions<R, I>,
) {
  return defineVerb<I, Row<R>>({
    http: 'POST /',
    status: 201,
    ...verb,
    output: rowSchema(table),
    run: async (ctx, input) => {
      const row = asRow<R>(input)
      check?.(row)
      if (await table.find(ctx.tx, keyOf(table, row)))
        refuse('conflict', conflict?.(row) ?? `there is a ${label(row)} already`)
      return table.insertReturning(ctx.tx, row)
    },
  })
}

interface UpdateOptions<R extends z.ZodObject, I extends z.ZodObject> extends WriteOptions<R, I> {
  /** Refuses an invalid row after the change. */
  check?(row: Row<R>): void
}

/** PATCH /{key}: changes the given columns and returns the row. */
export function updateVerb<R extends z.ZodObject, I extends z.ZodObject>(
  table: Table<R>,
  { label, check, ...verb }: UpdateOptions<R, I>,
) {
  return defineVerb<I, Row<R>>({
    http: `PATCH /${keyParameter(table)}`,
    ...verb,
    output: rowSchema(table),
    run: async (ctx, input) => {
      const key = keyOf(table, input)
      const find = () => mustFindRow(ctx, table, key, label(asRow<R>(key)))
      await find()
      const patch = Object.fromEntries(Object.entries(input).filter(([column]) => !table.key.includes(column)))
      await table.update(ctx.tx, key, asRow<R>(patch))
      const row = await find()
      check?.(row)
      return row
    },
  })
}

interface RemoveOptions<R extends z.ZodObject, I extends z.ZodObject> extends WriteOptions<R, I> {
  /** The error if the row does not exist; default: `there is no <label>`. */
  missing?(key: Row<R>): string
}

/** DELETE /{key}. */
export function removeVerb<R extends z.ZodObject, I extends z.ZodObject>(
  table: Table<R>,
  { label, missing, ...verb }: RemoveOptions<R, I>,
) {
  return defineVerb({
    http: `DELETE /${keyParameter(table)}`,
    ...verb,
    run: async (ctx, input) => {
      const key = asRow<R>(keyOf(table, input))
      if ((await table.remove(ctx.tx, key)) === 0) refuse('not_found', missing?.(key) ?? `there is no ${label(key)}`)
    },
  })
}

/** The public row schema, or the named schema itself if no column is hidden. */
function rowSchema<R extends z.ZodObject>({ row }: Table<R>): z.ZodType<Row<R>> {
  const visible = publicRowSchema(row)
  const isWhole = Object.keys(visible.shape).length === Object.keys(row.shape).length
  // Verbs return the whole row; the face removes hidden columns.
  return (isWhole ? row : visible) as unknown as z.ZodType<Row<R>>
}

/** Resources build `input` from columns of the row, which TypeScript cannot follow through two schemas. */
function asRow<R extends z.ZodObject>(input: object): Row<R> {
  return input as Row<R>
}

function keyOf<R extends z.ZodObject>({ key }: Table<R>, input: Readonly<Record<string, unknown>>): Partial<Row<R>> {
  return asRow<R>(Object.fromEntries(key.map((column) => [column, input[column]])))
}

/** A composite key is one parameter (url-key.ts). */
function keyParameter({ key }: Table<z.ZodObject>): string {
  return key.length === 1 ? `{${key[0]}}` : '{pk}'
}

export function listSchema<R extends z.ZodObject, N extends string>(
  table: Table<R>,
  name: N,
): z.ZodType<ListResponse<N, R>> {
  const schema = z.object({ [name]: z.array(publicRowSchema(table.row)), next: z.string().optional() })
  // TypeScript widens the computed name to string.
  return schema as unknown as z.ZodType<ListResponse<N, R>>
}

export async function listPage<R extends z.ZodObject, N extends string>(
  ctx: Context,
  table: Table<R>,
  name: N,
  request: PageRequest<Row<R>>,
): Promise<ListResponse<N, R>> {
  const { rows, next } = await readPage(ctx, table, request)
  const hidden = hiddenColumns(table)
  const toPublic = (row: Row<R>) => Object.fromEntries(Object.entries(row).filter(([column]) => !hidden.has(column)))
  // TypeScript widens the computed name to string.
  return { [name]: rows.map(toPublic), ...(next === undefined ? {} : { next }) } as ListResponse<N, R>
}

function hiddenColumns<R extends z.ZodObject>(table: Table<R>): ReadonlySet<string> {
  return new Set(table.columns.filter((column) => isMarked(table.row, column, 'writeOnly')))
}

/** A page of whole rows, with a cursor for the caller. */
export async function readPage<R extends z.ZodObject>(
  ctx: Context,
  table: Table<R>,
  request: PageRequest<Row<R>>,
): Promise<{ readonly rows: Row<R>[]; readonly next?: string }> {
  const hidden = hiddenColumns(table)
  // A cursor contains the columns that order the list, so it is sealed if one is hidden, such as a token hash. The host can
  // read the store anyway and must be able to page without SECRETS_KEY.
  const isSealed = ctx.caller.kind !== 'host' && request.order.some(([column]) => hidden.has(column))
  const context = `cursor:${table.name}`
  const { after } = request
  const from = isSealed && after !== undefined ? openCursor(ctx, after, context) : after
  const page = await table.page(ctx.tx, { ...request, after: from })
  return page.next !== undefined && isSealed ? { ...page, next: sealCursor(ctx, page.next, context) } : page
}

function sealCursor({ keyring }: Context, cursor: string, context: string): string {
  return Buffer.from(keyring.seal(cursor, context)).toString('base64url')
}

/** Returns '' for a forged cursor, which the table refuses like any invalid cursor. */
function openCursor({ keyring }: Context, text: string, context: string): string {
  try {
    return keyring.open(Buffer.from(text, 'base64url'), context).toString()
  } catch (error) {
    if (error instanceof Refusal) return ''
    throw error
  }
}

export async function mustFindRow<R extends z.ZodObject>(
  ctx: Pick<Context, 'tx'>,
  table: Table<R>,
  where: Partial<Row<R>>,
  label: string,
): Promise<Row<R>> {
  return (await table.find(ctx.tx, where)) ?? refuse('not_found', `there is no ${label}`)
}

/** For `authorize`: the row of a key, if the caller has the tool on its folder (see `mustHaveToolForRow`). */
export async function mustFindRowWithTool<R extends z.ZodObject>(
  ctx: Context,
  table: Table<R>,
  where: Partial<Row<R>>,
  { scopeOf, ...labels }: RowLabels & { scopeOf(row: Row<R>): string },
): Promise<Row<R>> {
  const row = await table.find(ctx.tx, where)
  await mustHaveToolForRow(ctx, row && scopeOf(row), labels)
  return row ?? refuse('not_found', labels.missing ?? `there is no ${labels.label}`)
}

/** For verbs that use files. */
export function layoutOf({ layout }: Pick<InstanceHost, 'layout'>): Layout {
  return layout ?? refuse('unavailable', 'this process has no files of the instance')
}

export function mustFindGroup(ctx: Pick<Context, 'tx'>, folder: string) {
  return mustFindRow(ctx, groups, { folder }, `group ${folder}`)
}
