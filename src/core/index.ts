// The tables that are no resource or that rules read, in creation order.
import { acl, aclMembership } from './acl.ts'
import { networkRules } from './allowlist.ts'
import { configVersion } from './config-version.ts'
import { costLog, users } from './costs.ts'
import { groups } from './groups.ts'
import { identities, identityClaims } from './identities.ts'
import { routeTokens } from './route-tokens.ts'
import { routes } from './routes.ts'
import { signingKeys } from './signing-keys.ts'
import { scheduledTasks, taskRunLogs } from './tasks.ts'
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
  routeTokens,
  networkRules,
  signingKeys,
  identities,
  identityClaims,
  users,
  costLog,
]
