// Help for one command, or the whole page.
import { refuse } from '../../lib/refusal.ts'
import { command, loadAll } from '../command.ts'
import { explain, helpPage, unknownCommand } from '../help.ts'

export const helpCommands = [
  command({
    usage: 'help [<command>]',
    about: 'explain every command, or one',
    example: 'help token',
    run: async ({ commands, print }, { command: noun }) => {
      const load = noun !== undefined && Object.hasOwn(commands, noun) ? commands[noun] : undefined
      if (load) print.raw(explain(await load()))
      else if (noun === undefined) print.raw(helpPage(await loadAll(commands)))
      else refuse('not_found', unknownCommand(noun, Object.keys(commands)))
    },
  }),
]
