// `help`: one command, or the whole page.
import { helpOn } from '../../lib/command-line/help.ts'
import { defineEgressCommand } from '../cli/command.ts'
import { EGRESS_PAGE } from '../cli/help-page.ts'

export const egressHelpCommands = [
  defineEgressCommand({
    usage: 'help [<command>]',
    about: 'explain all commands, or one',
    example: 'help run',
    run: async ({ commands, print }, { command: noun }) => print.raw(await helpOn(EGRESS_PAGE, commands, noun)),
  }),
]
