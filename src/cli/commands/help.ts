// Prints the help of one command, or the whole page.
import { helpOn } from '../../lib/command-line/help.ts'
import { defineSvcCommand } from '../command.ts'
import { SVC_HELP } from '../help-page.ts'

export const helpCommands = [
  defineSvcCommand({
    usage: 'help [<command>]',
    about: 'explain all commands, or one',
    example: 'help token',
    run: async ({ commands, print }, { command: noun }) => print.raw(await helpOn(SVC_HELP, commands, noun)),
  }),
]
