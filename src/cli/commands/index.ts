// The list of commands, in the order of help. Each is loaded only when it is typed.
import type { Commands } from '../command.ts'

export const commands: Commands = {
  start: async () => (await import('./start.ts')).startCommands,
  create: async () => (await import('./create.ts')).createCommands,
  serve: async () => (await import('./serve.ts')).serveCommands,
  doctor: async () => (await import('./doctor.ts')).doctorCommands,
  group: async () => (await import('./group.ts')).groupCommands,
  token: async () => (await import('./token.ts')).tokenCommands,
  chat: async () => (await import('./chat.ts')).chatCommands,
  send: async () => (await import('./send.ts')).sendCommands,
  sandbox: async () => (await import('./sandbox.ts')).sandboxCommands,
  messages: async () => (await import('./messages.ts')).messagesCommands,
  channel: async () => (await import('./channel.ts')).channelCommands,
  bearer: async () => (await import('./bearer.ts')).bearerCommands,
  identity: async () => (await import('./identity.ts')).identityCommands,
  invite: async () => (await import('./invite.ts')).inviteCommands,
  gate: async () => (await import('./gate.ts')).gateCommands,
  budget: async () => (await import('./budget.ts')).budgetCommands,
  network: async () => (await import('./network.ts')).networkCommands,
  secret: async () => (await import('./secret.ts')).secretCommands,
  'user-secret': async () => (await import('./secret.ts')).userSecretCommands,
  export: async () => (await import('./export.ts')).exportCommands,
  apply: async () => (await import('./apply.ts')).applyCommands,
  bridge: async () => (await import('./bridge.ts')).bridgeCommands,
  completion: async () => (await import('./completion.ts')).completionCommands,
  help: async () => (await import('./help.ts')).helpCommands,
}
