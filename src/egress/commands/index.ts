// The list of commands, in the order of help. Each is loaded only when it is typed.
import type { Commands } from '../command.ts'

export const commands: Commands = {
  proxy: async () => (await import('./proxy.ts')).proxyCommands,
  run: async () => (await import('./run.ts')).runCommands,
  state: async () => (await import('./state.ts')).stateCommands,
  check: async () => (await import('./check.ts')).checkCommands,
  completion: async () => (await import('./completion.ts')).completionCommands,
  help: async () => (await import('./help.ts')).helpCommands,
}
