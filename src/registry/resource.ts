// Types and constructors of resources and verbs. A verb with `http` has a REST route, one with `when` is an agent tool; a
// resource with `exported` is part of the manifest.
import { z } from 'zod'
import type { Reach } from '../core/access/reach.ts'
import type { ToolTiers } from '../core/access/tiers.ts'
import type { Table } from '../store/table.ts'
import type { Context, InstanceHost, RequestContext } from './context.ts'

export type ServingDaemon = 'authd' | 'routd' | 'gated' | 'runed' | 'webd' | 'proxyd' | 'dashd' | 'onbod' | 'timed'
export type HttpRoute = `${'GET' | 'POST' | 'PATCH' | 'DELETE'} /${string}`

export interface Verb<I extends z.ZodObject = z.ZodObject, O = unknown> {
  input: I
  /** Rules between members of the input, as JSON Schema for the API description. `run` enforces them. */
  memberRules?: Readonly<Record<string, unknown>>
  /** Schema of the reply; absent if there is none. */
  output?: z.ZodType<O>
  /** Throws if the caller has no access. Runs in the same transaction as `run`, so both see the same rows. */
  authorize(ctx: Context, input: z.output<I>): void | Promise<void>
  /** Method and path below the resource's path; absent: no REST route. */
  http?: HttpRoute
  /** The success status if it is not 200, or 204 without a reply. */
  status?: 201
  /** When an agent should use the tool; absent: the verb is not a tool. */
  when?: string
  /** What readers of a chat see while the tool runs; it must tell nothing of the inside. Default: `Working`. */
  activity?: string
  /** The smallest reach of a turn that may use the tool; default: all. */
  reach?: Reach
  /** Which tiers may have the tool, and which have it by default; absent: any tier may, only the root does. */
  tiers?: ToolTiers
  /** The tool's name; default: <resource>.<verb>. */
  tool?: string
  /** The tool's arguments; default: `input`. */
  toolInput?: ToolArguments<z.output<I>>
  /** The tool's reply; default: the reply itself. */
  toolReply?(reply: O, input: z.output<I>): unknown
  /**
   * Work outside the store before the transaction; `run` gets the result. The call is authorized before `prepare` and again in
   * the transaction.
   */
  prepare?(request: RequestContext, input: z.output<I>): Promise<unknown>
  /** Work outside the store after the commit; the result is the tool's reply. Only for tools. */
  finish?(request: RequestContext, reply: O, input: z.output<I>): Promise<unknown>
  /** Whether the instance has the parts that the tool needs; otherwise the tool is not listed. */
  isAvailable?(host: InstanceHost): boolean
  /** Takes the lock on the message order before it reads (`lockMessageOrder`). */
  appendsMessages?: true
  /** Pages call it for people who are not signed in yet. */
  needsNoSession?: true
  /** Writes nothing: no audit row and no write lock. */
  isReadOnly?: true
  /** The arguments for the audit row; undefined to write no row. Default: the input. */
  auditInput?(input: z.output<I>, reply: O): object | undefined
  /** For the audit row: the folder of a person whose bearer names none. */
  actingFolder?(ctx: Context, input: z.output<I>): Promise<string>
  run(ctx: Context, input: z.output<I>, prepared?: unknown): Promise<O>
}

/** Arguments of a tool that differ from the input of its verb. Their fields stay known: logs read the marks on them. */
export interface ToolArguments<I> {
  readonly fields: z.ZodObject
  /** Parsed arguments as input of the verb. */
  toInput(args: Record<string, unknown>): I
}

export function toolArguments<F extends z.core.$ZodLooseShape, I>(
  fields: F,
  toInput: (args: z.output<z.ZodObject<F, z.core.$strict>>) => I,
): ToolArguments<I> {
  // Only the parsed output of `fields` is passed in.
  return { fields: z.strictObject(fields), toInput: toInput as ToolArguments<I>['toInput'] }
}

export interface VerbIdentity {
  /** <resource>.<verb>: the name in the API description, audit rows and logs. */
  readonly id: string
  readonly resource: string
  readonly verb: string
  /** The columns that identify a row. */
  readonly key: readonly string[]
  /** The name in grants: mcp:<tool>. */
  readonly toolName: string
  /** Lists the rows of the resource; rows that it does not list to a caller do not exist for them. Default: the tool itself. */
  readonly listTool?: string
}

export type NamedVerb<I extends z.ZodObject = z.ZodObject, O = unknown> = Verb<I, O> & VerbIdentity

export interface ManifestExport<Row> {
  /** The columns that identify a row in the manifest; default: the table's key. */
  key?: readonly (keyof Row & string)[]
  /** Columns that are not in the manifest. */
  omit?: readonly (keyof Row & string)[]
  /** Exported, but ignored by apply. */
  ignoredByApply?: true
  /** Returns a fault of one row or of the rows together. */
  check?(rows: readonly Row[]): string | undefined
  /** Returns a fault of the complete list, such as a missing row. */
  checkWhole?(rows: readonly Row[]): string | undefined
  /** The row as exported. If undefined, the row is not exported and apply does not touch it. */
  exportRow?(row: Row): Row | undefined
  /** Rows with equal `within` keep the order of the manifest, by ascending `counter`, which the store assigns. */
  ordered?: { readonly within: keyof Row & string; readonly counter: keyof Row & string }
  /** Columns that refer to another exported resource, with its name. The store has no row without the other. */
  references?: { readonly [K in keyof Row & string]?: string }
  /** Sets the columns that the manifest lacks; `current` is the stored row with the same key. */
  fill?(ctx: Context, row: Row, current: Row | undefined): Row
}

export interface Resource<R extends z.ZodObject = z.ZodObject, V extends Record<string, Verb> = Record<string, Verb>> {
  readonly name: string
  /** Name of the row schema in the API description. */
  readonly title: string
  readonly servedBy: readonly ServingDaemon[]
  readonly table: Table<R>
  readonly row: R
  readonly key: readonly string[]
  /** /v1/<name>, except where the specification says otherwise. */
  readonly path: string
  /** The member of a list response that contains the rows. */
  readonly listKey: string
  readonly exported?: ManifestExport<z.output<R>>
  readonly verbs: { [K in keyof V]: V[K] & VerbIdentity }
}

export interface ResourceDefinition<R extends z.ZodObject, V extends Record<string, Verb>> {
  of: Table<R>
  title: string
  servedBy: ServingDaemon | readonly ServingDaemon[]
  path?: string
  listKey?: string
  /** The columns that identify a row in a URL; default: the table's key. */
  key?: readonly (keyof z.output<R> & string)[]
  exported?: ManifestExport<z.output<R>>
  verbs: (table: Table<R>) => V
}

export function defineResource<R extends z.ZodObject, V extends Record<string, Verb>>(
  declared: ResourceDefinition<R, V>,
): Resource<R, V> {
  const { of: table, title, servedBy, path, listKey, key = table.key, exported } = declared
  const declaredVerbs = declared.verbs(table)
  const listTool = declaredVerbs.list?.tool ?? `${table.name}.list`
  const verbs = Object.entries(declaredVerbs).map(([name, verb]) => {
    const id = `${table.name}.${name}`
    const identity: VerbIdentity = { id, resource: table.name, verb: name, key, toolName: verb.tool ?? id, listTool }
    return [name, { ...verb, input: verb.input.strict(), ...identity }]
  })
  return {
    name: table.name,
    title,
    servedBy: [servedBy].flat(),
    table,
    row: table.row,
    key,
    path: path ?? `/v1/${table.name}`,
    listKey: listKey ?? table.name,
    ...(exported ? { exported } : {}),
    // fromEntries loses the member types of `V`.
    verbs: Object.fromEntries(verbs) as Resource<R, V>['verbs'],
  }
}

/** Infers the input type of `run` and `authorize` from the schema. */
export function defineVerb<I extends z.ZodObject, O = void>(declared: Verb<I, O>): Verb<I, O> {
  return declared
}
