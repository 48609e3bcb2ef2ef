// The list of commands, in the order of help. Each is loaded on demand.
import type { EgressCommands } from '../cli/command.ts'

export const egressCommands: EgressCommands = {
  proxy: async () => (await import('./proxy.ts')).proxyCommands,
  run: async () => (await import('./run.ts')).runCommands,
  state: async () => (await import('./state.ts')).stateCommands,
  check: async () => (await import('./check.ts')).checkCommands,
  completion: async () => (await import('./completion.ts')).egressCompletionCommands,
  help: async () => (await import('./help.ts')).egressHelpCommands,
}
