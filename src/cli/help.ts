// What help says, all of it from the usage lines.
import { nearest } from '../lib/nearest.ts'
import type { Described } from './usage.ts'

/** One command, or the few that a word may mean. */
export function explain(commands: readonly Described[]): string {
  return commands
    .map(({ usage, about, example }) => `usage: svc ${usage}\n  ${about}\nexample: svc ${example}\n`)
    .join('\n')
}

/** What a wrong call prints: how it is written, and one that works. */
export function usageLines(commands: readonly Described[]): string {
  const usages = commands.map(({ usage }, at) => `${at ? '       ' : 'usage: '}svc ${usage}\n`)
  const [first] = commands
  return usages.join('') + (first ? `example: svc ${first.example}\n` : '')
}

export function unknownCommand(noun: string, known: Iterable<string>): string {
  const meant = nearest(noun, known)
  const said = `unknown command ${JSON.stringify(noun.slice(0, 40))}`
  return meant === undefined ? said : `${said}; did you mean ${meant}?`
}

const HEAD = `svc runs agents on your own machine: one agent lives in one folder, and messages reach it through chats and links.

usage: svc <command> <instance> [<argument>…]

An instance lies in svc_<instance> below $SVC_DATA_DIR, otherwise below \${PREFIX:-/srv}/data. Flags may stand anywhere; -- ends
them. --json on a command that lists or shows gives JSON. svc help <command>, or --help anywhere, explains one command.
`

const TAIL = `
Exit codes: 0 done; 1 refused, or wrongly used; 2 apply found another config_version, or send did not reach the server.
`

/** The whole page: every command with an example. */
export function helpPage(groups: readonly (readonly Described[])[]): string {
  const entries = groups.map((commands) =>
    commands.map(({ usage, about, example }) => `  svc ${usage}\n      ${about}\n      $ svc ${example}\n`).join(''),
  )
  return [HEAD, ...entries, TAIL.trimStart()].join('\n')
}
