// Completions for the shell, made from the usage lines: what may be typed after the words that are there.
import { refuse } from '../../lib/refusal.ts'
import { command, loadAll } from '../command.ts'
import { completionScript, isShell, SHELLS } from '../completion.ts'

export const completionCommands = [
  command({
    usage: 'completion <shell>',
    about: 'print completions for bash, zsh or fish',
    example: 'completion bash > ~/.local/share/bash-completion/completions/svc',
    run: async ({ commands, print }, { shell }) => {
      if (!isShell(shell)) refuse('invalid', `there are completions for ${SHELLS.join(', ')}`)
      print.raw(completionScript(shell, (await loadAll(commands)).flat()))
    },
  }),
]
