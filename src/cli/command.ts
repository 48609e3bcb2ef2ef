// What a command is, and what it is given: argv as typed arguments, the verbs of an instance, and a printer. It holds no rule.
import { userInfo } from 'node:os'
import type { z } from 'zod'
import type { Caller } from '../core/access/caller.ts'
import type { OpenHost } from '../daemons/process/host.ts'
import type { Clock } from '../lib/clock.ts'
import { isPlainText, type OutputStream, type Printer, printer } from '../lib/command-line/print.ts'
import {
  type DeclaredCommand,
  type ProgramCommand,
  type ProgramCommands,
  declareCommand as programCommand,
} from '../lib/command-line/program.ts'
import { refuse } from '../lib/refusal.ts'
import type { SettingSource } from '../lib/settings.ts'
import type { NamedVerb } from '../registry/resource.ts'
import type { ConfiguredInstance } from './instance/instance.ts'

/** The process as a command sees it; tests pass their own. */
export interface SvcIo {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  readonly stdin: AsyncIterable<Uint8Array>
  /** Writes bytes to stdout, for data that is no text. Rejects when they cannot be written, also where the reader has left. */
  output(bytes: Uint8Array): Promise<void>
  readonly environment: SettingSource
  readonly clock: Clock
  /** Asks the operator for a line that the terminal does not echo; absent where there is no terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined
  /** The same with an echo. */
  readonly prompt?: ((question: string) => Promise<string>) | undefined
  /** Resolves when the process is asked to end. */
  stopped(): Promise<void>
}

export type SvcCommand = ProgramCommand<SvcContext>
export type SvcCommands = ProgramCommands<SvcCommand>

export function svcCommand<const U extends string>(declared: DeclaredCommand<SvcContext, U>): SvcCommand {
  return programCommand(declared)
}

/** An instance with its store open. */
export interface OpenedInstance extends ConfiguredInstance {
  readonly host: OpenHost
}

export interface SvcContext {
  readonly io: SvcIo
  readonly commands: SvcCommands
  readonly print: Printer
  /** Opened when first asked for, closed when the command has ended. */
  open(): Promise<OpenedInstance>
  /** One verb, as whoever sits at this machine. */
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
  /** All rows of a list, page by page. */
  rows<I extends z.ZodObject, N extends string, T>(
    verb: NamedVerb<I, Record<N, T[]> & { next?: string | undefined }>,
    member: N,
    input: Omit<z.input<I>, 'limit' | 'after'>,
  ): Promise<T[]>
}

export interface OpenSvcContext extends SvcContext {
  close(): Promise<void>
}

export function openSvcContext(
  io: SvcIo,
  commands: SvcCommands,
  args: { instance?: unknown; json?: unknown },
): OpenSvcContext {
  const print = printer({ ...io, plain: isPlainText(io.environment), json: args.json === true })
  let opened: Promise<OpenedInstance> | undefined
  const open = (): Promise<OpenedInstance> => {
    opened ??= openNamed(io, print, args.instance)
    return opened
  }
  const call: SvcContext['call'] = async (verb, input) => {
    const [{ host }, { callVerb }] = [await open(), await import('../registry/call.ts')]
    return callVerb({ host, caller: hostCaller(), face: 'cli' }, verb, input)
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

async function openNamed(io: SvcIo, print: Printer, name: unknown): Promise<OpenedInstance> {
  if (typeof name !== 'string') refuse('invalid', 'this command has no instance')
  // Loaded late: what is wrong with the arguments is said without it.
  const { findInstance, openInstance } = await import('./instance/instance.ts')
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
