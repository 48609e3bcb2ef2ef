// The ordinary verbs of a table. What differs from row to row is said by the resource.
import { z } from 'zod'
import type { Reach } from '../core/reach.ts'
import { limit, line } from '../core/values.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Order, PageRequest, Table } from '../store/table.ts'
import type { Context } from './context.ts'
import { adminFilter, reachOf } from './needs.ts'
import { type Verb, verb } from './resource.ts'

const Cursor = line(2000)
  .meta({ pattern: '^[A-Za-z0-9_-]+$', format: 'cursor' })
  .describe('The `next` of the page before, as it was given')

export const Paging = z.object({
  limit: limit(100, 1000),
  after: Cursor.optional(),
})

/** For tools that take no paging: everything, as one page. */
export const EVERYTHING = { limit: Number.MAX_SAFE_INTEGER - 1 }

type Row<R extends z.ZodObject> = z.output<R>
type Keep<T> = (row: T) => boolean

/** The row as others see it: without its write-only fields. */
export function shownRow<R extends z.ZodObject>(row: R): z.ZodObject {
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

export type Listing<N extends string, R extends z.ZodObject> = Record<N, z.output<R>[]> & { next?: string }

interface ListOptions<R extends z.ZodObject, N extends string> {
  needs: Verb['needs']
  order: Order<Row<R>>
  /** The column that holds a row's folder, where a caller sees the rows of the folders that they administer. */
  folder?: FolderColumn<Row<R>>
  /** Which rows this caller may see, where not all of them or of those folders. */
  keep?(ctx: Context): Promise<Keep<Row<R>>>
  when?: string
  reach?: Reach
  tool?: string
  toolReply?(reply: Listing<N, R>): unknown
}

/** GET /: `{<name>: […], next?}`. The tool takes nothing and gives everything that the caller may see. */
export function list<R extends z.ZodObject, N extends string>(table: Table<R>, name: N, options: ListOptions<R, N>) {
  const { needs, order, when, reach, tool, toolReply } = options
  return verb({
    http: 'GET /',
    reads: true,
    input: Paging,
    output: listing(table, name),
    needs,
    toolInput: z.strictObject({}).transform(() => EVERYTHING),
    ...(when ? { when } : {}),
    ...(reach ? { reach } : {}),
    ...(tool ? { tool } : {}),
    toolReply: toolReply ?? ((reply) => reply),
    run: async (ctx, paging) => {
      const { below, keep: isOwn } = options.folder ? await ofFolders<Row<R>>(ctx, options.folder) : {}
      const maySee = await options.keep?.(ctx)
      const keep = isOwn && maySee ? (row: Row<R>) => isOwn(row) && maySee(row) : (isOwn ?? maySee)
      return pageOf(ctx, table, name, { order, ...paging, below, ...(keep ? { keep } : {}) })
    },
  })
}

/** The rows of folders that the caller administers: narrowed by the index to where that can be, then judged one by one. */
async function ofFolders<T>(ctx: Context, column: keyof T & string): Promise<Pick<PageRequest<T>, 'below' | 'keep'>> {
  const [paths, mayAdmin] = [await reachOf(ctx), await adminFilter(ctx)]
  return { below: paths && { column, paths }, keep: (row) => mayAdmin(String(row[column])) }
}

/** The schema of a list's answer. */
export function listing<R extends z.ZodObject, N extends string>(table: Table<R>, name: N): z.ZodType<Listing<N, R>> {
  const schema = z.object({ [name]: z.array(shownRow(table.row)), next: z.string().optional() })
  // The member's name is a parameter, which TypeScript widens to any text.
  return schema as unknown as z.ZodType<Listing<N, R>>
}

export async function pageOf<R extends z.ZodObject, N extends string>(
  ctx: Context,
  table: Table<R>,
  name: N,
  request: PageRequest<Row<R>>,
): Promise<Listing<N, R>> {
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
  return { [name]: page.rows.map(visible), ...next } as Listing<N, R>
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
export async function mustFind<R extends z.ZodObject>(
  ctx: Context,
  table: Table<R>,
  where: Partial<Row<R>>,
  what: string,
): Promise<Row<R>> {
  return (await table.find(ctx.tx, where)) ?? refuse('not_found', `there is no ${what}`)
}
