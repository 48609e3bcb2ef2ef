// The tables that are no resource or that rules read, in creation order.
import { acl, aclMembership } from './acl.ts'
import { networkRules } from './allowlist.ts'
import { channelRegistrations } from './channel-registrations.ts'
import { channelSecrets } from './channel-secrets.ts'
import { chats } from './chat-state.ts'
import { chatEvents } from './chats.ts'
import { configVersion } from './config-version.ts'
import { conversations, folderTurns, sessionLog } from './conversations.ts'
import { costLog, users } from './costs.ts'
import { engagements } from './engagement.ts'
import { envelopes } from './envelopes.ts'
import { fetched } from './fetched.ts'
import { groups } from './groups.ts'
import { idempotencyKeys } from './idempotency.ts'
import { identities, identityClaims } from './identities.ts'
import { inbox, routing } from './inbox.ts'
import { linkStats } from './link-stats.ts'
import { messageChanges } from './message-changes.ts'
import { filing, messages } from './messages.ts'
import { modelKeys } from './model-keys.ts'
import { networkDenials } from './network-denials.ts'
import { outbox } from './outbox.ts'
import { pendingActions } from './pending-actions.ts'
import { proxydRoutes } from './proxyd-routes.ts'
import { frames, rounds } from './rounds.ts'
import { routeTokens } from './route-tokens.ts'
import { routes } from './routes.ts'
import { sandboxEntries, sandboxRooms } from './sandbox.ts'
import { signingKeys } from './signing-keys.ts'
import { storageUse } from './storage-use.ts'
import { taskLeases } from './task-leases.ts'
import { scheduledTasks, taskRunLogs } from './tasks.ts'
import { turns } from './turns.ts'
import { webHosts } from './web-hosts.ts'
import { webRoutes } from './web-routes.ts'

export const coreTables = [
  configVersion,
  groups,
  acl,
  aclMembership,
  routes,
  scheduledTasks,
  taskRunLogs,
  webRoutes,
  proxydRoutes,
  webHosts,
  routeTokens,
  networkRules,
  signingKeys,
  identities,
  identityClaims,
  users,
  costLog,
  messages,
  filing,
  chatEvents,
  rounds,
  frames,
  idempotencyKeys,
  linkStats,
  envelopes,
  inbox,
  routing,
  conversations,
  folderTurns,
  sessionLog,
  engagements,
  chats,
  outbox,
  channelRegistrations,
  channelSecrets,
  sandboxEntries,
  sandboxRooms,
  turns,
  messageChanges,
  fetched,
  taskLeases,
  pendingActions,
  networkDenials,
  storageUse,
  modelKeys,
]
