// What a resource is: its row, its verbs, who may use them, its table. Presence is the switch: `http` gives a REST route,
// `when` gives a tool, `exported` gives a place in the manifest.
import type { z } from 'zod'
import type { Reach } from '../core/access/reach.ts'
import type { ToolTiers } from '../core/access/tiers.ts'
import type { Table } from '../store/table.ts'
import type { Context, InstanceHost, RequestContext } from './context.ts'

export type ServingDaemon = 'authd' | 'routd' | 'gated' | 'runed' | 'webd' | 'proxyd' | 'dashd' | 'onbod' | 'timed'
export type HttpRoute = `${'GET' | 'POST' | 'PATCH' | 'DELETE'} /${string}`

export interface Verb<I extends z.ZodObject = z.ZodObject, O = unknown> {
  /** What a caller may say; nothing else checks input. */
  input: I
  /** Rules between members of the input, as JSON Schema: for the API description. `run` enforces them. */
  memberRules?: Readonly<Record<string, unknown>>
  /** What the caller is told; absent: nothing. */
  output?: z.ZodType<O>
  /** Returns, or refuses. Runs inside the transaction, so the row it judged is the row that changes. */
  needs(ctx: Context, input: z.output<I>): void | Promise<void>
  /** Method and path below the resource's own; absent: no REST face. */
  http?: HttpRoute
  /** The status of success where it is not 200 (or 204 for nothing). */
  status?: 201
  /** When an agent should use it; absent: no tool. */
  when?: string
  /** The smallest reach of a turn that may use the tool; absent: all. */
  reach?: Reach
  /** Which tiers may have the tool and have it by default; absent: any may, and only the root does. */
  tiers?: ToolTiers
  /** The tool's exact name, where it is not <resource>.<verb>. */
  tool?: string
  /** The tool's own arguments, where they are not the input itself. */
  toolInput?: z.ZodType<z.output<I>>
  /** The tool's own answer, where it is not the output itself; text stays text. */
  toolReply?(reply: O, input: z.output<I>): unknown
  /**
   * What must be known of the outside before anything is recorded; its answer is given to `run`. Only whoever may, judged
   * once before and once more in the transaction.
   */
  prepare?(asking: RequestContext, input: z.output<I>): Promise<unknown>
  /** What is left to do outside when the commit is done; its answer is the tool's. Only tools have it. */
  finish?(asking: RequestContext, reply: O, input: z.output<I>): Promise<unknown>
  /** Whether the instance has what the tool needs; without it there is no such tool. */
  isAvailable?(host: InstanceHost): boolean
  /** Adds messages: it stands in the line of those who do before it reads anything (`queueUp`). */
  appendsMessages?: true
  /** Changes nothing: no audit row, no write lock. */
  reads?: true
  /** What the audit row says, where it is not the input; nothing, where the reply tells of no change. */
  audited?(input: z.output<I>, reply: O): object | undefined
  /** The folder that a person acts from whose bearer names none, for the audit row. */
  actingFolder?(ctx: Context, input: z.output<I>): Promise<string>
  run(ctx: Context, input: z.output<I>, prepared?: unknown): Promise<O>
}

export interface VerbIdentity {
  /** <resource>.<verb>: operation, audit row and log line agree on it. */
  readonly id: string
  readonly resource: string
  readonly verb: string
  /** What names one row of the resource. */
  readonly key: readonly string[]
  /** What a grant names as mcp:<tool>. */
  readonly toolName: string
}

export type NamedVerb<I extends z.ZodObject = z.ZodObject, O = unknown> = Verb<I, O> & VerbIdentity

/** How a resource stands in a manifest. */
export interface ManifestExport<Row> {
  /** What identifies a row there, where it is not the table's key. */
  key?: readonly (keyof Row & string)[]
  /** Columns that a manifest does not carry. */
  omit?: readonly (keyof Row & string)[]
  /** Shown, and ignored by apply. */
  ignoredByApply?: true
  /** A rule over each row and over all of them: a sentence, or nothing. */
  check?(rows: readonly Row[]): string | undefined
  /** A rule over the whole list alone, such as a row that must be there. */
  checkWhole?(rows: readonly Row[]): string | undefined
  /** The row as a manifest shows it. A row without one is not exported, and apply leaves it alone. */
  show?(row: Row): Row | undefined
  /** Rows with equal `within` keep the order of the manifest: it is the order of their `counter`, which the store sets. */
  ordered?: { readonly within: keyof Row & string; readonly counter: keyof Row & string }
  /** Columns that hold the key of another exported resource, and that resource's name. */
  references?: { readonly [K in keyof Row & string]?: string }
  /** Sets what the manifest does not carry; `current` is the row that stays. */
  fill?(ctx: Context, row: Row, current: Row | undefined): Row
}

export interface Resource<R extends z.ZodObject = z.ZodObject, V extends Record<string, Verb> = Record<string, Verb>> {
  readonly name: string
  /** Name of its schema in the API description. */
  readonly title: string
  readonly servedBy: readonly ServingDaemon[]
  readonly table: Table<R>
  readonly row: R
  readonly key: readonly string[]
  /** Where it is served: /v1/<name>, with the one exception that the specification makes. */
  readonly path: string
  /** The member that holds the rows in a list's answer. */
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
  /** What stands in a URL for one row, where it is not the table's key. */
  key?: readonly (keyof z.output<R> & string)[]
  exported?: ManifestExport<z.output<R>>
  verbs: (table: Table<R>) => V
}

export function defineResource<R extends z.ZodObject, V extends Record<string, Verb>>(
  declared: ResourceDefinition<R, V>,
): Resource<R, V> {
  const { of: table, title, servedBy, path, listKey, key = table.key, exported } = declared
  const verbs = Object.entries(declared.verbs(table)).map(([verb, what]) => {
    const id = `${table.name}.${verb}`
    const named = { id, resource: table.name, verb, key, toolName: what.tool ?? id }
    return [verb, { ...what, input: what.input.strict(), ...named }]
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
    // The entries come from `V` one by one; only TypeScript forgets it on the way through fromEntries.
    verbs: Object.fromEntries(verbs) as Resource<R, V>['verbs'],
  }
}

/** Ties a verb's parts together, so that `run` and `needs` know what `input` gives. */
export function defineVerb<I extends z.ZodObject, O = void>(declared: Verb<I, O>): Verb<I, O> {
  return declared
}
