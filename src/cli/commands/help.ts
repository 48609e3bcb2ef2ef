// Help for one command; the whole page is a file beside the program's front, which prints it without loading anything.
import { nearest } from '../../lib/nearest.ts'
import { refuse } from '../../lib/refusal.ts'
import { type Command, command } from '../command.ts'
import { explain, helpPage } from '../help.ts'
import { commands } from './index.ts'

/** What bin/help.txt must hold. */
export async function helpText(): Promise<string> {
  return helpPage(await allCommands())
}

export function allCommands(): Promise<(readonly Command[])[]> {
  return Promise.all(Object.values(commands).map((load) => load()))
}

export const helpCommands = [
  command({
    usage: 'help [<command>]',
    about: 'explain every command, or one',
    example: 'help token',
    run: async (svc, { command: noun }) => {
      if (noun === undefined) return svc.print.raw(await helpText())
      const load = Object.hasOwn(commands, noun) ? commands[noun] : undefined
      const meant = nearest(noun, Object.keys(commands))
      if (!load)
        refuse(
          'not_found',
          `unknown command ${JSON.stringify(noun.slice(0, 40))}${meant ? `; did you mean ${meant}?` : ''}`,
        )
      svc.print.raw(explain(await load()))
    },
  }),
]
