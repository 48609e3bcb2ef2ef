// Prints shell completion scripts, which are generated from the usage lines.
import { completionScript, isShell, SHELLS } from '../../lib/command-line/completion.ts'
import { loadAll } from '../../lib/command-line/program.ts'
import { refuse } from '../../lib/refusal.ts'
import { defineSvcCommand } from '../command.ts'
import { SVC_HELP } from '../help-page.ts'
import { INSTANCE_COMPLETION } from '../instance/instance-completion.ts'

export const completionCommands = [
  defineSvcCommand({
    usage: 'completion <shell>',
    about: 'print completions for bash, zsh or fish',
    example: 'completion bash > ~/.local/share/bash-completion/completions/svc',
    run: async ({ commands, print }, { shell }) => {
      if (!isShell(shell))
        refuse('invalid', `no completions for ${JSON.stringify(shell.slice(0, 40))}; known: ${SHELLS.join(', ')}`)
      const { name } = SVC_HELP
      const all = (await loadAll(commands)).flat()
      print.raw(completionScript(shell, { name, commands: all, instances: INSTANCE_COMPLETION }))
    },
  }),
]
