// Help for one command, or the whole page.
import { helpOn } from '../../lib/help.ts'
import { command } from '../command.ts'
import { EGRESS_PAGE } from '../help-page.ts'

export const helpCommands = [
  command({
    usage: 'help [<command>]',
    about: 'explain every command, or one',
    example: 'help run',
    run: async ({ commands, print }, { command: noun }) => print.raw(await helpOn(EGRESS_PAGE, commands, noun)),
  }),
]
