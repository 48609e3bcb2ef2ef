// Completions for the shell, made from the usage lines: what may be typed after the words that are there.
import { completionScript, isShell, SHELLS } from '../../lib/completion.ts'
import { loadAll } from '../../lib/program.ts'
import { refuse } from '../../lib/refusal.ts'
import { command } from '../command.ts'
import { SVC_PAGE } from '../help-page.ts'
import { INSTANCE_LISTING } from '../instance-listing.ts'

export const completionCommands = [
  command({
    usage: 'completion <shell>',
    about: 'print completions for bash, zsh or fish',
    example: 'completion bash > ~/.local/share/bash-completion/completions/svc',
    run: async ({ commands, print }, { shell }) => {
      if (!isShell(shell)) refuse('invalid', `there are completions for ${SHELLS.join(', ')}`)
      const { name } = SVC_PAGE
      const all = (await loadAll(commands)).flat()
      print.raw(completionScript(shell, { name, commands: all, instances: INSTANCE_LISTING }))
    },
  }),
]
