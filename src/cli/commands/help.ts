// Help for one command, or the whole page.
import { nearest } from '../../lib/nearest.ts'
import { refuse } from '../../lib/refusal.ts'
import { command } from '../command.ts'
import { explain, helpPage } from '../help.ts'

export const helpCommands = [
  command({
    usage: 'help [<command>]',
    about: 'explain every command, or one',
    example: 'help token',
    run: async ({ commands, print }, { command: noun }) => {
      const load = noun !== undefined && Object.hasOwn(commands, noun) ? commands[noun] : undefined
      if (load) print.raw(explain(await load()))
      else if (noun === undefined) print.raw(helpPage(await Promise.all(Object.values(commands).map((all) => all()))))
      else {
        const meant = nearest(noun, Object.keys(commands))
        const guess = meant === undefined ? '' : `; did you mean ${meant}?`
        refuse('not_found', `unknown command ${JSON.stringify(noun.slice(0, 40))}${guess}`)
      }
    },
  }),
]
