// What a command is, and what it is given: argv as typed arguments, the verbs of an instance, and a printer. It holds no rule.
import { userInfo } from 'node:os'
import type { z } from 'zod'
import type { Caller } from '../core/caller.ts'
import type { OpenHost } from '../daemons/host.ts'
import type { Clock } from '../lib/clock.ts'
import { isPlain, type Out, type Printer, printer } from '../lib/print.ts'
import {
  type DeclaredCommand,
  type Command as ProgramCommand,
  type Commands as ProgramCommands,
  command as programCommand,
} from '../lib/program.ts'
import { refuse } from '../lib/refusal.ts'
import type { Source } from '../lib/settings.ts'
import type { NamedVerb } from '../registry/resource.ts'
import type { Configured } from './instance.ts'

/** The process as a command sees it; tests pass their own. */
export interface Io {
  readonly stdout: Out
  readonly stderr: Out
  readonly stdin: AsyncIterable<Uint8Array>
  readonly environment: Source
  readonly clock: Clock
  /** Asks the operator for a line that the terminal does not echo; absent where there is no terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined
  /** The same with an echo. */
  readonly prompt?: ((question: string) => Promise<string>) | undefined
  /** Resolves when the process is asked to end. */
  stopped(): Promise<void>
}

export type Command = ProgramCommand<Svc>
export type Commands = ProgramCommands<Command>

export function command<const U extends string>(declared: DeclaredCommand<Svc, U>): Command {
  return programCommand(declared)
}

/** An instance with its store open. */
export interface Opened extends Configured {
  readonly host: OpenHost
}

export interface Svc {
  readonly io: Io
  readonly commands: Commands
  readonly print: Printer
  /** Opened when first asked for, closed when the command has ended. */
  open(): Promise<Opened>
  /** One verb, as whoever sits at this machine. */
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
  /** All rows of a list, page by page. */
  rows<I extends z.ZodObject, N extends string, T>(
    verb: NamedVerb<I, Record<N, T[]> & { next?: string | undefined }>,
    member: N,
    input: Omit<z.input<I>, 'limit' | 'after'>,
  ): Promise<T[]>
}

export interface OpenSvc extends Svc {
  close(): Promise<void>
}

export function openSvc(io: Io, commands: Commands, args: { instance?: unknown; json?: unknown }): OpenSvc {
  const print = printer({ ...io, plain: isPlain(io.environment), json: args.json === true })
  let opened: Promise<Opened> | undefined
  const open = (): Promise<Opened> => {
    opened ??= openNamed(io, print, args.instance)
    return opened
  }
  const call: Svc['call'] = async (verb, input) => {
    const [{ host }, { call }] = [await open(), await import('../registry/call.ts')]
    return call({ host, caller: hostCaller(), face: 'cli' }, verb, input)
  }
  return {
    io,
    commands,
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
  const { findInstance, openInstance } = await import('./instance.ts')
  const configured = await findInstance(name, io.environment)
  for (const warning of configured.warnings) print.warn(warning)
  return { ...configured, host: await openInstance(configured, { clock: io.clock }) }
}

/** Whoever sits at this machine, as the audit log names them. A user without an entry in the machine's list has a number. */
export function hostCaller(): Caller {
  try {
    return { kind: 'host', sub: `cli:${userInfo().username}` }
  } catch {
    return { kind: 'host', sub: `cli:${process.getuid?.() ?? 'unknown'}` }
  }
}
