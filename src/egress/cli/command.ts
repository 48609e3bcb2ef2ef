// The context of egress-proxy commands: the process as they see it, and a printer.
import { isPlainText, type OutputStream, type Printer, printer } from '../../lib/command-line/print.ts'
import {
  type DeclaredCommand,
  type ProgramCommand,
  type ProgramCommands,
  declareCommand as programCommand,
} from '../../lib/command-line/program.ts'
import type { ArgumentValues } from '../../lib/command-line/usage.ts'
import type { SettingSource } from '../../lib/settings.ts'

/** The process as a command sees it; tests pass their own. */
export interface EgressIo {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  readonly environment: SettingSource
  /** Resolves with the name of the first termination signal. A second one ends the process at once. */
  stopped(): Promise<string>
  /** Calls back on every SIGHUP, which then no longer ends the process. */
  onHangup(listener: () => void): void
}

export interface EgressCommandContext {
  readonly io: EgressIo
  readonly commands: EgressCommands
  readonly print: Printer
}

export type EgressCommand = ProgramCommand<EgressCommandContext>
export type EgressCommands = ProgramCommands<EgressCommand>

export function defineEgressCommand<const U extends string>(
  declared: DeclaredCommand<EgressCommandContext, U>,
): EgressCommand {
  return programCommand(declared)
}

export function createEgressCommandContext(
  io: EgressIo,
  commands: EgressCommands,
  { json }: ArgumentValues,
): EgressCommandContext {
  return { io, commands, print: printer({ ...io, plain: isPlainText(io.environment), json: json === true }) }
}
