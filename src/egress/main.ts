// The command `egress-proxy`.
import { runProgram } from '../lib/command-line/program.ts'
import { createEgressCommandContext, type EgressIo } from './cli/command.ts'
import { EGRESS_PAGE } from './cli/help-page.ts'
import { egressCommands } from './commands/index.ts'

/** Exit codes: 0 success, 1 refused, failed or wrong usage; `run` has its own. */
export function egressMain(argv: readonly string[], io: EgressIo): Promise<number> {
  const { name } = EGRESS_PAGE
  return runProgram(
    {
      name,
      commands: egressCommands,
      run: async (command, args) =>
        (await command.run(createEgressCommandContext(io, egressCommands, args), args)) ?? 0,
    },
    argv,
    io,
  )
}
