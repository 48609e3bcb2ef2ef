// The command `egress-proxy`.
import { runProgram } from '../lib/program.ts'
import { type Io, openDesk } from './command.ts'
import { commands } from './commands/index.ts'
import { EGRESS_PAGE } from './help-page.ts'

const MISUSE = 2

/** The exit code: 0 done, 1 refused or failed, 2 wrongly used; `check` and `run` have their own. */
export function main(argv: readonly string[], io: Io): Promise<number> {
  const { name } = EGRESS_PAGE
  return runProgram(
    {
      name,
      commands,
      misuse: MISUSE,
      run: async (command, args) => (await command.run(openDesk(io, commands, args), args)) ?? 0,
    },
    argv,
    io,
  )
}
