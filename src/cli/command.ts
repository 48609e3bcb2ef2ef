// What a command is, and what it is given: argv as typed arguments, the verbs of an instance, and a printer. It holds no rule.
import { userInfo } from 'node:os'
import type { z } from 'zod'
import type { OpenHost } from '../daemons/host.ts'
import { refuse } from '../lib/refusal.ts'
import type { Source } from '../lib/settings.ts'
import type { NamedVerb } from '../registry/resource.ts'
import type { Configured } from './instance.ts'
import { type Out, type Printer, printer } from './print.ts'
import type { Args, Described } from './usage.ts'

/** The process as a command sees it; tests pass their own. */
export interface Io {
  readonly stdout: Out
  readonly stderr: Out
  readonly stdin: AsyncIterable<Uint8Array>
  readonly environment: Source
  /** Resolves when the process is asked to end. */
  stopped(): Promise<void>
}

export interface Command<U extends string = string> extends Described {
  readonly usage: U
  /** A number is the exit code, where it is not 0. */
  run(svc: Svc, args: Args<U>): Promise<void> | Promise<number>
}

export function command<const U extends string>(declared: Command<U>): Command<U> {
  return declared
}

/** An instance with its store open. */
export interface Opened extends Configured {
  readonly host: OpenHost
}

export interface Svc {
  readonly io: Io
  readonly print: Printer
  /** Opened when first asked for, closed when the command has ended. */
  open(): Promise<Opened>
  /** One verb, as whoever sits at this machine. */
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
  /** All rows of a list, page by page. */
  rows<I extends z.ZodObject, N extends string, T>(
    verb: NamedVerb<I, Record<N, T[]> & { next?: string }>,
    member: N,
    input: Omit<z.input<I>, 'limit' | 'after'>,
  ): Promise<T[]>
}

export interface OpenSvc extends Svc {
  close(): Promise<void>
}

export function openSvc(io: Io, args: { instance?: unknown; json?: unknown }): OpenSvc {
  const print = printer({ ...io, plain: isPlain(io.environment), json: args.json === true })
  let opened: Promise<Opened> | undefined
  const open = (): Promise<Opened> => {
    opened ??= openNamed(io, print, args.instance)
    return opened
  }
  const call: Svc['call'] = async (verb, input) => {
    const [{ host }, { call }] = [await open(), await import('../registry/call.ts')]
    return call({ host, caller: { kind: 'host', sub: operatorName() }, face: 'cli' }, verb, input)
  }
  return {
    io,
    print,
    open,
    call,
    rows: async (verb, member, input) => {
      const rows = []
      let after: string | undefined
      do {
        // Every list takes these two; that the rest is the verb's own input is checked by the signature.
        const page = await call(verb, { ...input, limit: 1000, ...(after === undefined ? {} : { after }) } as never)
        rows.push(...page[member])
        after = page.next
      } while (after !== undefined)
      return rows
    },
    close: async () => {
      const result = await opened?.catch(() => undefined)
      await result?.host.close()
    },
  }
}

async function openNamed(io: Io, print: Printer, name: unknown): Promise<Opened> {
  if (typeof name !== 'string') refuse('invalid', 'this command has no instance')
  // Loaded late: what is wrong with the arguments is said without it.
  const { configure, mustBeThere, openInstance, placeOf } = await import('./instance.ts')
  const place = placeOf(name, io.environment)
  await mustBeThere(place)
  const configured = await configure(place, io.environment)
  for (const warning of configured.warnings) print.warn(warning)
  return { ...configured, host: await openInstance(configured) }
}

/** Who the audit log names. A user without an entry in the machine's list has a number. */
function operatorName(): string {
  try {
    return `cli:${userInfo().username}`
  } catch {
    return `cli:${process.getuid?.() ?? 'unknown'}`
  }
}

export function isPlain(environment: Source): boolean {
  return Boolean(environment.get('NO_COLOR')) || environment.get('TERM') === 'dumb'
}
