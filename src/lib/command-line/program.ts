// A program of many commands: finds the typed command, runs it and maps the outcome to an exit code.

import { Refusal } from '../refusal.ts'
import { readArguments } from './argv.ts'
import { describeCommands, unknownCommand, usageLines } from './help.ts'
import type { OutputStream } from './print.ts'
import type { Args, ArgumentValues, CommandDescription } from './usage.ts'

/** Resolves to the exit code if it is not 0. */
type ExitCode = Promise<void> | Promise<number>

/** `S` is the context of the program's commands besides their arguments. */
export interface ProgramCommand<S> extends CommandDescription {
  run(context: S, args: ArgumentValues): ExitCode
}

export interface DeclaredCommand<S, U extends string> extends CommandDescription {
  readonly usage: U
  run(context: S, args: Args<U>): ExitCode
}

export function declareCommand<S, const U extends string>(declared: DeclaredCommand<S, U>): ProgramCommand<S> {
  // The argument parser fills in exactly what the usage line names, which is what Args describes.
  return { ...declared, run: (context, args) => declared.run(context, args as Args<U>) }
}

/** Commands by first word, loaded on demand. */
export type ProgramCommands<C extends CommandDescription> = Readonly<Record<string, () => Promise<readonly C[]>>>

export function loadAll<C extends CommandDescription>(commands: ProgramCommands<C>): Promise<(readonly C[])[]> {
  return Promise.all(Object.values(commands).map((load) => load()))
}

export interface CommandLineProgram<C extends CommandDescription> {
  readonly name: string
  readonly commands: ProgramCommands<C>
  /** Resolves to the exit code. */
  run(command: C, args: ArgumentValues): Promise<number>
}

/** See docs/decisions.md#exit-codes. */
const REFUSED = 1

interface ProgramOutput {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
}

/** A usage error that a command finds in its own arguments. */
export class UsageError extends Refusal {}

export function throwUsageError(message: string, hint?: string): never {
  throw new UsageError('invalid', message, hint)
}

/** Turns refusals of `work` into usage errors. */
export function withUsageErrors<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof Refusal) throwUsageError(error.message, error.hint)
    throw error
  }
}

/** Returns the exit code: 0 done, 1 refused or wrong usage, or what a command returns. */
export async function runProgram<C extends CommandDescription>(
  program: CommandLineProgram<C>,
  argv: readonly string[],
  output: ProgramOutput,
): Promise<number> {
  try {
    return await dispatch(program, argv, output)
  } catch (error) {
    return report(program, error, output)
  }
}

async function dispatch<C extends CommandDescription>(
  program: CommandLineProgram<C>,
  argv: readonly string[],
  output: ProgramOutput,
) {
  const { name, commands } = program
  // Flags may come anywhere, so the first word that is not a flag names the command; a word after a flag may be its value.
  const isWord = (token: string | undefined): boolean => token !== undefined && !token.startsWith('-')
  const at = argv.findIndex(
    (token, at) => isWord(token) && (at === 0 || isWord(argv[at - 1]) || Object.hasOwn(commands, token)),
  )
  const noun = argv[at]
  if (noun === undefined) {
    // Cut at the equals sign: the value may be a secret.
    const [flag] = argv[0]?.split('=') ?? []
    const fault = flag === undefined ? 'a command is missing' : `unknown flag ${JSON.stringify(flag.slice(0, 40))}`
    return reportMissingCommand(program, fault, output)
  }
  const load = Object.hasOwn(commands, noun) ? commands[noun] : undefined
  if (!load) return reportMissingCommand(program, await unknown(program, noun), output)
  const reading = readArguments(await load(), argv.toSpliced(at, 1))
  switch (reading.kind) {
    case 'run':
      return runCommand(program, reading.command, reading.args, output)
    case 'help':
      output.stdout.write(describeCommands(name, reading.about))
      return 0
    case 'wrong':
      return reportUsageError(program, reading, reading.about, output)
  }
}

async function unknown<C extends CommandDescription>(
  { commands }: CommandLineProgram<C>,
  noun: string,
): Promise<string> {
  // A user who means `proxy serve` may type only the second word.
  const lines = (await loadAll(commands)).flat().map(({ usage }) => usage.split(' '))
  const [meant] = lines.filter(([, second]) => second === noun)
  if (!meant) return unknownCommand(noun, Object.keys(commands))
  return `${unknownCommand(noun, [])}; did you mean ${meant.slice(0, 2).join(' ')}?`
}

async function runCommand<C extends CommandDescription>(
  program: CommandLineProgram<C>,
  command: C,
  args: ArgumentValues,
  output: ProgramOutput,
) {
  try {
    return await program.run(command, args)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    return reportUsageError(program, { fault: error.message, hint: error.hint }, [command], output)
  }
}

function reportUsageError<C extends CommandDescription>(
  { name }: CommandLineProgram<C>,
  { fault, hint }: { readonly fault: string; readonly hint?: string | undefined },
  about: readonly C[],
  { stderr }: ProgramOutput,
): number {
  stderr.write(`${name}: ${fault}\n${hint ? `hint: ${hint}\n` : ''}`)
  stderr.write(usageLines(name, about))
  return REFUSED
}

function reportMissingCommand<C extends CommandDescription>(
  { name }: CommandLineProgram<C>,
  fault: string,
  { stderr }: ProgramOutput,
): number {
  stderr.write(`${name}: ${fault}\nhint: ${name} help lists every command\n`)
  return REFUSED
}

function report<C extends CommandDescription>(
  { name }: CommandLineProgram<C>,
  error: unknown,
  { stderr }: ProgramOutput,
): number {
  if (error instanceof Refusal) {
    stderr.write(`${name}: ${error.message}\n${error.hint === undefined ? '' : `hint: ${error.hint}\n`}`)
    return REFUSED
  }
  // An unexpected error is a bug, and a report needs its stack.
  stderr.write(`${name}: internal error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  return REFUSED
}
