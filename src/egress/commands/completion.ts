// Completions for the shell, made from the usage lines: what may be typed after the words that are there.
import { completionScript, isShell, SHELLS } from '../../lib/completion.ts'
import { loadAll, misuse } from '../../lib/program.ts'
import { command } from '../command.ts'
import { EGRESS_PAGE } from '../help-page.ts'

export const completionCommands = [
  command({
    usage: 'completion <shell>',
    about: 'print completions for bash, zsh or fish',
    example: 'completion bash > ~/.local/share/bash-completion/completions/egress-proxy',
    run: async ({ commands, print }, { shell }) => {
      if (!isShell(shell)) misuse(`there are completions for ${SHELLS.join(', ')}`)
      const all = (await loadAll(commands)).flat()
      print.raw(completionScript(shell, { name: EGRESS_PAGE.name, commands: all }))
    },
  }),
]
