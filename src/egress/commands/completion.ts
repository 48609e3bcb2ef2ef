// `completion`: prints shell completions generated from the usage lines.
import { completionScript, isShell, SHELLS } from '../../lib/command-line/completion.ts'
import { loadAll, throwUsageError } from '../../lib/command-line/program.ts'
import { defineEgressCommand } from '../cli/command.ts'
import { EGRESS_PAGE } from '../cli/help-page.ts'

export const egressCompletionCommands = [
  defineEgressCommand({
    usage: 'completion <shell>',
    about: 'print completions for bash, zsh or fish',
    example: 'completion bash > ~/.local/share/bash-completion/completions/egress-proxy',
    run: async ({ commands, print }, { shell }) => {
      if (!isShell(shell)) throwUsageError(`<shell> must be one of ${SHELLS.join(', ')}`)
      const all = (await loadAll(commands)).flat()
      print.raw(completionScript(shell, { name: EGRESS_PAGE.name, commands: all }))
    },
  }),
]
