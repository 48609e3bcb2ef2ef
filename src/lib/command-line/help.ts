// Formats help from the usage lines.

import { refuse } from '../refusal.ts'
import { nearest } from '../text/nearest-word.ts'
import type { CommandDescription } from './usage.ts'

/** The text around the commands on the full page. */
export interface HelpPage {
  /** The name of the program. */
  readonly name: string
  readonly head: string
  readonly tail: string
}

/** Commands by first word, loaded on demand. */
type Loaded = Readonly<Record<string, () => Promise<readonly CommandDescription[]>>>

/** Help for one command, or for all that share a word. */
export function describeCommands(program: string, commands: readonly CommandDescription[]): string {
  return commands
    .map(({ usage, about, example }) => `usage: ${program} ${usage}\n  ${about}\nexample: ${program} ${example}\n`)
    .join('\n')
}

/** Usage and an example, printed after a usage error. */
export function usageLines(program: string, commands: readonly CommandDescription[]): string {
  const usages = commands.map(({ usage }, at) => `${at ? '       ' : 'usage: '}${program} ${usage}\n`)
  const [first] = commands
  return usages.join('') + (first ? `example: ${program} ${first.example}\n` : '')
}

export function unknownCommand(noun: string, known: Iterable<string>): string {
  const meant = nearest(noun, known)
  const message = `unknown command ${JSON.stringify(noun.slice(0, 40))}`
  return meant === undefined ? message : `${message}; did you mean ${meant}?`
}

/** The full page: every command with an example. */
function helpPage({ name, head, tail }: HelpPage, groups: readonly (readonly CommandDescription[])[]): string {
  const entries = groups.map((commands) =>
    commands
      .map(({ usage, about, example }) => `  ${name} ${usage}\n      ${about}\n      $ ${name} ${example}\n`)
      .join(''),
  )
  return [head, ...entries, tail].join('\n')
}

/** Output of the `help` command: the full page, or one command. */
export async function helpOn(page: HelpPage, commands: Loaded, noun: string | undefined): Promise<string> {
  if (noun === undefined) return helpPage(page, await Promise.all(Object.values(commands).map((load) => load())))
  const load = Object.hasOwn(commands, noun) ? commands[noun] : undefined
  if (!load) refuse('not_found', unknownCommand(noun, Object.keys(commands)))
  return describeCommands(page.name, await load())
}
