// Definition and context of a command: typed arguments, the verbs of an instance and a printer. Contains no business rules.
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
import type { ProcessLine } from '../supervisor/process-line.ts'
import type { ConfiguredInstance } from './instance/instance.ts'
import { type CommandWriter, commandWriter, type TypedProgram, writeCommandsTo } from './output/shown-commands.ts'
import type { RemoteInstance } from './remote/remote-instance.ts'

/** The process as a command sees it; tests pass their own. */
export interface SvcIo {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  readonly stdin: AsyncIterable<Uint8Array>
  /** Writes binary data to stdout. Rejects on every write error, including a closed pipe. */
  writeBytes(bytes: Uint8Array): Promise<void>
  readonly environment: SettingSource
  readonly clock: Clock
  /** Prompts the operator for a line without echo; undefined if stdin is not a terminal. */
  readonly promptHidden?: ((question: string) => Promise<string>) | undefined
  /** Like `promptHidden`, with echo. */
  readonly prompt?: ((question: string) => Promise<string>) | undefined
  /** Resolves when the process receives a termination signal, or when its parent is gone. */
  stopped(): Promise<void>
  /** The channel to its parent; undefined unless the supervisor has started this process. */
  readonly line?: ProcessLine | undefined
  /** How svc was started, for the commands that it names; absent: as `svc`. */
  readonly typed?: () => TypedProgram
  /** Calls `log` with an exception that nothing caught, and then exits with `FAULT_EXIT_CODE`. */
  onUncaught?(log: (error: unknown) => void): void
}

export type SvcCommand = ProgramCommand<SvcContext>
export type SvcCommands = ProgramCommands<SvcCommand>

export function defineSvcCommand<const U extends string>(declared: DeclaredCommand<SvcContext, U>): SvcCommand {
  return programCommand(declared)
}

/** An instance with its store open. */
/** Its sources include the settings of the store. */
export interface OpenedInstance extends ConfiguredInstance {
  readonly host: OpenHost
}

export interface SvcContext {
  readonly io: SvcIo
  readonly commands: SvcCommands
  /** Messages on stderr name commands of svc as they can be typed here. */
  readonly print: Printer
  /** The same for data on stdout. */
  readonly showCommands: CommandWriter
  /** Reads the settings of the instance and prints their warnings, without opening the store. */
  findInstance(): Promise<ConfiguredInstance>
  /** Opens the store on the first call. It is closed after the command. */
  open(): Promise<OpenedInstance>
  /** Whether the instance is on another machine, where only verbs with a REST route can be called. */
  isRemote(): Promise<boolean>
  /** Refuses if it is. */
  mustBeLocal(): Promise<void>
  /** Calls one verb as the user of this machine; on another machine, as the person who signed in with `svc login --url`. */
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
  /** Reads all pages of a list. */
  listAll<I extends z.ZodObject, N extends string, T>(
    verb: NamedVerb<I, Record<N, T[]> & { next?: string | undefined }>,
    member: N,
    input: Omit<z.input<I>, 'limit' | 'after'>,
  ): Promise<T[]>
}

interface OpenSvcContext extends SvcContext {
  close(): Promise<void>
}

export function openSvcContext(
  io: SvcIo,
  commands: SvcCommands,
  args: { instance?: unknown; json?: unknown },
): OpenSvcContext {
  const { stdout, environment } = io
  const showCommands = commandWriter(Object.keys(commands), io.typed)
  const stderr = writeCommandsTo(io.stderr, showCommands)
  const print = printer({ stdout, stderr, plain: isPlainText(environment), json: args.json === true })
  let opened: Promise<OpenedInstance> | undefined
  let remote: Promise<RemoteInstance | undefined> | undefined
  const findRemote = (): Promise<RemoteInstance | undefined> => {
    remote ??= loadRemote(args.instance, io)
    return remote
  }
  const mustBeLocal = async (): Promise<void> => (await findRemote())?.refuseLocal()
  const findInstance = async (): Promise<ConfiguredInstance> => {
    if (typeof args.instance !== 'string') refuse('invalid', 'this command has no instance')
    await mustBeLocal()
    // Loaded late, so that usage errors are reported without it.
    const instances = await import('./instance/instance.ts')
    const configured = await instances.findInstance(args.instance, io.environment)
    for (const warning of configured.warnings) print.warn(warning)
    return configured
  }
  const openInstance = async (): Promise<OpenedInstance> => {
    const { mayBeServed, openInstance, withStoredSettings } = await import('./instance/instance.ts')
    const found = await findInstance()
    // Loaded only then: most commands of a script run while nothing is served.
    const configured = (await mayBeServed(found))
      ? await (await import('./instance/served-port.ts')).atServedPort(found)
      : found
    const host = await openInstance(configured, { clock: io.clock })
    return { ...configured, sources: await withStoredSettings(configured, host), host }
  }
  const open = (): Promise<OpenedInstance> => {
    opened ??= openInstance()
    return opened
  }
  const call: SvcContext['call'] = async (verb, input) => {
    const elsewhere = await findRemote()
    if (elsewhere) return elsewhere.call(verb, input)
    const [{ host }, { callVerb }] = [await open(), await import('../registry/call.ts')]
    return callVerb({ host, caller: hostCaller(), face: 'cli' }, verb, input)
  }
  return {
    io,
    commands,
    print,
    showCommands,
    findInstance,
    open,
    isRemote: async () => (await findRemote()) !== undefined,
    mustBeLocal,
    call,
    listAll: async (verb, member, input) => {
      const rows = []
      let after: string | undefined
      do {
        // Every list verb takes `limit` and `after`; the signature checks the rest of the input.
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

async function loadRemote(name: unknown, { environment, clock }: SvcIo): Promise<RemoteInstance | undefined> {
  if (typeof name !== 'string') return undefined
  const { isRemoteInstance, locateInstance } = await import('./instance/instance.ts')
  const location = locateInstance(name, environment)
  if (!(await isRemoteInstance(location))) return undefined
  const { openRemoteInstance } = await import('./remote/remote-instance.ts')
  return openRemoteInstance(location, clock)
}

/** The user of this machine for the audit log: the user name, or the uid if the system does not know a name. */
export function hostCaller(): Caller {
  try {
    return { kind: 'host', sub: `cli:${userInfo().username}` }
  } catch {
    return { kind: 'host', sub: `cli:${process.getuid?.() ?? 'unknown'}` }
  }
}
