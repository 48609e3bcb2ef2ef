// What a command of egress-proxy is given: its arguments, the process as it sees it, and a printer.
import { isPlain, type Out, type Printer, printer } from '../lib/print.ts'
import {
  type DeclaredCommand,
  type Command as ProgramCommand,
  type Commands as ProgramCommands,
  command as programCommand,
} from '../lib/program.ts'
import type { Source } from '../lib/settings.ts'
import type { Given } from '../lib/usage.ts'

/** The process as a command sees it; tests pass their own. */
export interface Io {
  readonly stdout: Out
  readonly stderr: Out
  readonly environment: Source
  /** Resolves with the name of the signal that asks the process to end. One more ends it at once. */
  stopped(): Promise<string>
  /** Told of every SIGHUP from now on, which then no longer ends the process. */
  onHangup(told: () => void): void
}

export interface Desk {
  readonly io: Io
  readonly commands: Commands
  readonly print: Printer
}

export type Command = ProgramCommand<Desk>
export type Commands = ProgramCommands<Command>

export function command<const U extends string>(declared: DeclaredCommand<Desk, U>): Command {
  return programCommand(declared)
}

export function openDesk(io: Io, commands: Commands, { json }: Given): Desk {
  return { io, commands, print: printer({ ...io, plain: isPlain(io.environment), json: json === true }) }
}
