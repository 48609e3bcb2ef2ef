// A program of many commands: finds the command that was typed, runs it, and turns whatever comes of it into an exit code.
import { readArguments } from './argv.ts'
import { explain, unknownCommand, usageLines } from './help.ts'
import type { Out } from './print.ts'
import { Refusal } from './refusal.ts'
import type { Args, Described, Given } from './usage.ts'

/** Where it is not 0, the exit code. */
type Ended = Promise<void> | Promise<number>

/** `S` is what the program's commands are given beside their arguments. */
export interface Command<S> extends Described {
  run(surroundings: S, args: Given): Ended
}

export interface DeclaredCommand<S, U extends string> extends Described {
  readonly usage: U
  run(surroundings: S, args: Args<U>): Ended
}

export function command<S, const U extends string>(declared: DeclaredCommand<S, U>): Command<S> {
  // Whoever reads argv fills in just what the usage line names, which is what Args says of it.
  return { ...declared, run: (surroundings, args) => declared.run(surroundings, args as Args<U>) }
}

/** The commands by their first word, each loaded when it is asked for. */
export type Commands<C extends Described> = Readonly<Record<string, () => Promise<readonly C[]>>>

export function loadAll<C extends Described>(commands: Commands<C>): Promise<(readonly C[])[]> {
  return Promise.all(Object.values(commands).map((load) => load()))
}

export interface Program<C extends Described> {
  readonly name: string
  readonly commands: Commands<C>
  /** The exit code where it was wrongly used. */
  readonly misuse: number
  /** Answers with the exit code. */
  run(command: C, args: Given): Promise<number>
}

interface Outs {
  readonly stdout: Out
  readonly stderr: Out
}

/** A call that only the command itself can tell is wrong. */
export class Misuse extends Refusal {}

export function misuse(message: string, hint?: string): never {
  throw new Misuse('invalid', message, hint)
}

/** What is refused meanwhile is a fault of the call. */
export function asMisuse<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof Refusal) misuse(error.message, error.hint)
    throw error
  }
}

/** The exit code: 0 done, 1 refused, the program's own where it was wrongly used; else what a command says. */
export async function runProgram<C extends Described>(
  program: Program<C>,
  argv: readonly string[],
  outs: Outs,
): Promise<number> {
  try {
    return await dispatch(program, argv, outs)
  } catch (error) {
    return report(program, error, outs)
  }
}

async function dispatch<C extends Described>(program: Program<C>, argv: readonly string[], outs: Outs) {
  const { name, commands } = program
  // Flags may stand anywhere, so the first word that is none says which command it is; one behind a flag may be its value.
  const isWord = (token: string | undefined): boolean => token !== undefined && !token.startsWith('-')
  const at = argv.findIndex(
    (token, at) => isWord(token) && (at === 0 || isWord(argv[at - 1]) || Object.hasOwn(commands, token)),
  )
  const noun = argv[at]
  if (noun === undefined) {
    // Without what follows an equals sign: it may be a secret.
    const [flag] = argv[0]?.split('=') ?? []
    const fault = flag === undefined ? 'a command is missing' : `unknown flag ${JSON.stringify(flag.slice(0, 40))}`
    return noCommand(program, fault, outs)
  }
  const load = Object.hasOwn(commands, noun) ? commands[noun] : undefined
  if (!load) return noCommand(program, await unknown(program, noun), outs)
  const reading = readArguments(await load(), argv.toSpliced(at, 1))
  switch (reading.kind) {
    case 'run':
      return runCommand(program, reading.command, reading.args, outs)
    case 'help':
      outs.stdout.write(explain(name, reading.about))
      return 0
    case 'wrong':
      return wrong(program, reading, reading.about, outs)
  }
}

async function unknown<C extends Described>({ commands }: Program<C>, noun: string): Promise<string> {
  // Somebody who means `proxy serve` may well type the second word alone.
  const lines = (await loadAll(commands)).flat().map(({ usage }) => usage.split(' '))
  const [meant] = lines.filter(([, second]) => second === noun)
  if (!meant) return unknownCommand(noun, Object.keys(commands))
  return `${unknownCommand(noun, [])}; did you mean ${meant.slice(0, 2).join(' ')}?`
}

async function runCommand<C extends Described>(program: Program<C>, command: C, args: Given, outs: Outs) {
  try {
    return await program.run(command, args)
  } catch (error) {
    if (!(error instanceof Misuse)) throw error
    return wrong(program, { fault: error.message, hint: error.hint }, [command], outs)
  }
}

function wrong<C extends Described>(
  { name, misuse }: Program<C>,
  { fault, hint }: { readonly fault: string; readonly hint?: string | undefined },
  about: readonly C[],
  { stderr }: Outs,
): number {
  stderr.write(`${name}: ${fault}\n${hint ? `hint: ${hint}\n` : ''}`)
  stderr.write(usageLines(name, about))
  return misuse
}

function noCommand<C extends Described>({ name, misuse }: Program<C>, fault: string, { stderr }: Outs): number {
  stderr.write(`${name}: ${fault}\nhint: ${name} help lists every command\n`)
  return misuse
}

function report<C extends Described>({ name }: Program<C>, error: unknown, { stderr }: Outs): number {
  if (error instanceof Refusal) {
    stderr.write(`${name}: ${error.message}\n${error.hint === undefined ? '' : `hint: ${error.hint}\n`}`)
    return 1
  }
  // Not said on purpose, so it is a bug of ours, and its stack is what a report of it needs.
  stderr.write(`${name}: internal error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  return 1
}
