// The command `svc`: finds the command that was typed, runs it, and turns whatever comes of it into an exit code.
import { Refusal } from '../lib/refusal.ts'
import { readArguments } from './argv.ts'
import { type Command, type Io, openSvc } from './command.ts'
import { commands } from './commands/index.ts'
import { explain, unknownCommand, usageLines } from './help.ts'
import type { Given } from './usage.ts'

/** The exit code: 0 done, 1 refused or wrongly used, 2 where a command says so (decision E6). */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  try {
    return await dispatch(argv, io)
  } catch (error) {
    return report(error, io)
  }
}

async function dispatch(argv: readonly string[], io: Io): Promise<number> {
  // Flags may stand anywhere, so the first word that is none says which command it is; one behind a flag may be its value.
  const isWord = (token: string | undefined): boolean => token !== undefined && !token.startsWith('-')
  const at = argv.findIndex(
    (token, at) => isWord(token) && (at === 0 || isWord(argv[at - 1]) || Object.hasOwn(commands, token)),
  )
  const noun = argv[at]
  if (noun === undefined) {
    // Without what follows an equals sign: it may be a secret.
    const [flag] = argv[0]?.split('=') ?? []
    return wrong(io, flag === undefined ? 'a command is missing' : `unknown flag ${JSON.stringify(flag.slice(0, 40))}`)
  }
  const load = Object.hasOwn(commands, noun) ? commands[noun] : undefined
  if (!load) return wrong(io, unknownCommand(noun, Object.keys(commands)))
  const reading = readArguments(await load(), argv.toSpliced(at, 1))
  switch (reading.kind) {
    case 'run':
      return run(reading.command, reading.args, io)
    case 'help':
      io.stdout.write(explain(reading.about))
      return 0
    case 'wrong':
      io.stderr.write(`svc: ${reading.fault}\n${reading.hint ? `hint: ${reading.hint}\n` : ''}`)
      io.stderr.write(usageLines(reading.about))
      return 1
  }
}

async function run(command: Command, args: Given, io: Io): Promise<number> {
  const svc = openSvc(io, commands, args)
  try {
    return (await command.run(svc, args)) ?? 0
  } finally {
    await svc.close()
  }
}

function wrong(io: Io, fault: string): number {
  io.stderr.write(`svc: ${fault}\nhint: svc help lists every command\n`)
  return 1
}

function report(error: unknown, io: Io): number {
  if (error instanceof Refusal) {
    io.stderr.write(`svc: ${error.message}\n${error.hint === undefined ? '' : `hint: ${error.hint}\n`}`)
    return 1
  }
  // Not said on purpose, so it is a bug of ours, and its stack is what a report of it needs.
  io.stderr.write(`svc: internal error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  return 1
}
