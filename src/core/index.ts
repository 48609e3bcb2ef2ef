// The tables that are no resource or that rules read, in creation order.
import { acl, aclMembership } from './acl.ts'
import { networkRules } from './allowlist.ts'
import { chatEvents } from './chats.ts'
import { configVersion } from './config-version.ts'
import { costLog, users } from './costs.ts'
import { groups } from './groups.ts'
import { idempotencyKeys } from './idempotency.ts'
import { identities, identityClaims } from './identities.ts'
import { linkStats } from './link-stats.ts'
import { filing, messages } from './messages.ts'
import { proxydRoutes } from './proxyd-routes.ts'
import { frames, rounds } from './rounds.ts'
import { routeTokens } from './route-tokens.ts'
import { routes } from './routes.ts'
import { signingKeys } from './signing-keys.ts'
import { scheduledTasks, taskRunLogs } from './tasks.ts'
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
]
