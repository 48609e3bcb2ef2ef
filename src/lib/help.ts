// What help says, all of it from the usage lines.
import { nearest } from './nearest.ts'
import { refuse } from './refusal.ts'
import type { Described } from './usage.ts'

/** What stands around the commands on the whole page. */
export interface Page {
  /** What is typed to start the program. */
  readonly name: string
  readonly head: string
  readonly tail: string
}

/** Commands by their first word, each loaded when it is asked for. */
type Loaded = Readonly<Record<string, () => Promise<readonly Described[]>>>

/** One command, or the few that a word may mean. */
export function explain(program: string, commands: readonly Described[]): string {
  return commands
    .map(({ usage, about, example }) => `usage: ${program} ${usage}\n  ${about}\nexample: ${program} ${example}\n`)
    .join('\n')
}

/** What a wrong call prints: how it is written, and one that works. */
export function usageLines(program: string, commands: readonly Described[]): string {
  const usages = commands.map(({ usage }, at) => `${at ? '       ' : 'usage: '}${program} ${usage}\n`)
  const [first] = commands
  return usages.join('') + (first ? `example: ${program} ${first.example}\n` : '')
}

export function unknownCommand(noun: string, known: Iterable<string>): string {
  const meant = nearest(noun, known)
  const said = `unknown command ${JSON.stringify(noun.slice(0, 40))}`
  return meant === undefined ? said : `${said}; did you mean ${meant}?`
}

/** The whole page: every command with an example. */
export function helpPage({ name, head, tail }: Page, groups: readonly (readonly Described[])[]): string {
  const entries = groups.map((commands) =>
    commands
      .map(({ usage, about, example }) => `  ${name} ${usage}\n      ${about}\n      $ ${name} ${example}\n`)
      .join(''),
  )
  return [head, ...entries, tail].join('\n')
}

/** What the command `help` prints: the whole page, or one command. */
export async function helpOn(page: Page, commands: Loaded, noun: string | undefined): Promise<string> {
  if (noun === undefined) return helpPage(page, await Promise.all(Object.values(commands).map((load) => load())))
  const load = Object.hasOwn(commands, noun) ? commands[noun] : undefined
  if (!load) refuse('not_found', unknownCommand(noun, Object.keys(commands)))
  return explain(page.name, await load())
}
