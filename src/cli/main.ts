// The command `svc`.
import { runProgram } from '../lib/program.ts'
import type { Given } from '../lib/usage.ts'
import { type Command, type Io, openSvc } from './command.ts'
import { commands } from './commands/index.ts'
import { SVC_PAGE } from './help-page.ts'

/** The exit code: 0 done, 1 refused or wrongly used, 2 where a command says so (decision E6). */
export function main(argv: readonly string[], io: Io): Promise<number> {
  const { name } = SVC_PAGE
  const words = argv[0] === '--version' ? ['version', ...argv.slice(1)] : argv
  return runProgram({ name, commands, misuse: 1, run: (command, args) => run(command, args, io) }, words, io)
}

async function run(command: Command, args: Given, io: Io): Promise<number> {
  const svc = openSvc(io, commands, args)
  try {
    return (await command.run(svc, args)) ?? 0
  } finally {
    await svc.close()
  }
}
