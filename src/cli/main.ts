// Runs the `svc` command line.
import { runProgram } from '../lib/command-line/program.ts'
import type { ArgumentValues } from '../lib/command-line/usage.ts'
import { openSvcContext, type SvcCommand, type SvcIo } from './command.ts'
import { svcCommands } from './commands/index.ts'
import { commandWriter, writeCommandsTo } from './output/shown-commands.ts'

/** Returns the exit code: 0 done, 1 refused or wrong usage, or the code of the command. See docs/decisions.md#exit-codes. */
export function runSvc(argv: readonly string[], io: SvcIo): Promise<number> {
  const words = argv[0] === '--version' ? ['version', ...argv.slice(1)] : argv
  const { stdout, stderr, typed } = io
  return runProgram({ name: 'svc', commands: svcCommands, run: (command, args) => run(command, args, io) }, words, {
    stdout,
    stderr: writeCommandsTo(stderr, commandWriter(Object.keys(svcCommands), typed)),
  })
}

async function run(command: SvcCommand, args: ArgumentValues, io: SvcIo): Promise<number> {
  const svc = openSvcContext(io, svcCommands, args)
  try {
    return (await command.run(svc, args)) ?? 0
  } finally {
    await svc.close()
  }
}
