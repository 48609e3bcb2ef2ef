// Tables declared in src/core, in creation order. Resources that have no rules declare theirs in src/resources.
import { acl, aclMembership } from './access/acl.ts'
import { networkRules } from './access/allowlist.ts'
import { pendingActions } from './access/approvals.ts'
import { issuedBearers } from './access/issued-bearers.ts'
import { networkDenials } from './access/network-denials.ts'
import { chatEvents } from './chats/chat-events.ts'
import { chatTopics } from './chats/chat-topics.ts'
import { chats } from './chats/chats.ts'
import { topicRemovals } from './chats/topic-removal.ts'
import { configVersion } from './config-version.ts'
import { channelAccounts } from './delivery/channel-accounts.ts'
import { channelRegistrations } from './delivery/channel-registrations.ts'
import { outbox } from './delivery/outbox.ts'
import { sandboxEntries, sandboxRooms } from './delivery/sandbox-rooms.ts'
import { chatFiles } from './files/chat-files.ts'
import { groups } from './groups/groups.ts'
import { worldUsers } from './groups/world-users.ts'
import { idempotencyKeys } from './links/idempotency-keys.ts'
import { linkStats } from './links/link-stats.ts'
import { proxydRoutes } from './links/proxyd-routes.ts'
import { routeTokens } from './links/route-tokens.ts'
import { storageUse } from './links/storage-use.ts'
import { webHosts } from './links/web-hosts.ts'
import { webRoutes } from './links/web-routes.ts'
import { envelopes } from './messages/envelopes.ts'
import { fetchedMessages } from './messages/fetched-messages.ts'
import { inbox, routing } from './messages/inbox.ts'
import { messageChanges } from './messages/message-changes.ts'
import { messageRetries } from './messages/message-retries.ts'
import { filing, messages } from './messages/messages.ts'
import { clockChecks } from './messages/retention-clock.ts'
import { accounts } from './people/accounts.ts'
import { authorizationCodes } from './people/authorization-codes.ts'
import { deviceCodes } from './people/device-codes.ts'
import { formKeys } from './people/form-keys.ts'
import { identities, identityClaims } from './people/identities.ts'
import { inviteRedemptions } from './people/invites.ts'
import { oauthClients } from './people/oauth-clients.ts'
import { gateAdmissions } from './people/onboarding-gates.ts'
import { passkeys, usedChallenges } from './people/passkeys.ts'
import { sessions, sessionTokens } from './people/sessions.ts'
import { signInLinks } from './people/sign-in-links.ts'
import { processes } from './processes/processes.ts'
import { suspects } from './processes/suspects.ts'
import { engagements } from './routing/engagements.ts'
import { routes } from './routing/routes.ts'
import { taskLeases } from './schedule/task-leases.ts'
import { ratedTasks, taskRates } from './schedule/task-rates.ts'
import { scheduledTasks, taskRunLogs } from './schedule/tasks.ts'
import { channelSecrets } from './secrets/channel-secrets.ts'
import { modelKeys } from './secrets/model-keys.ts'
import { operatorEndpoints } from './secrets/operator-endpoints.ts'
import { secrets } from './secrets/secrets.ts'
import { signingKeys } from './secrets/signing-keys.ts'
import { storedSettings } from './settings/stored-settings.ts'
import { conversations, folderTurns, sessionLog, workSessions } from './turns/conversations.ts'
import { costLog, dailyCosts, users } from './turns/costs.ts'
import { frames, rounds } from './turns/rounds.ts'
import { dailySpend } from './turns/spend.ts'
import { turns } from './turns/turns.ts'

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
  secrets,
  operatorEndpoints,
  signingKeys,
  identities,
  identityClaims,
  users,
  costLog,
  dailyCosts,
  dailySpend,
  messages,
  filing,
  chatEvents,
  rounds,
  idempotencyKeys,
  linkStats,
  envelopes,
  chatFiles,
  inbox,
  frames,
  routing,
  conversations,
  folderTurns,
  sessionLog,
  workSessions,
  engagements,
  chats,
  outbox,
  channelRegistrations,
  channelSecrets,
  channelAccounts,
  sandboxEntries,
  sandboxRooms,
  turns,
  messageChanges,
  fetchedMessages,
  taskLeases,
  pendingActions,
  networkDenials,
  storageUse,
  modelKeys,
  storedSettings,
  sessions,
  sessionTokens,
  accounts,
  signInLinks,
  oauthClients,
  authorizationCodes,
  deviceCodes,
  issuedBearers,
  passkeys,
  usedChallenges,
  formKeys,
  inviteRedemptions,
  gateAdmissions,
  messageRetries,
  processes,
  suspects,
  worldUsers,
  taskRates,
  ratedTasks,
  clockChecks,
  chatTopics,
  topicRemovals,
]
