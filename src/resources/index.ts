// All resources. Their tables are created in this order.
import type { Resource } from '../registry/resource.ts'
import { accountsResource } from './accounts.ts'
import { aclResource } from './acl.ts'
import { aclMembershipResource } from './acl-membership.ts'
import { auditResource } from './audit.ts'
import { bearersResource } from './bearers.ts'
import { channelAccountsResource } from './channel-accounts.ts'
import { channelRegistrationsResource } from './channel-registrations.ts'
import { channelSecretsResource } from './channel-secrets.ts'
import { conversationsResource } from './conversations.ts'
import { costLogResource } from './cost-log.ts'
import { folderTurnsResource } from './folder-turns.ts'
import { groupsResource } from './groups.ts'
import { identitiesResource } from './identities.ts'
import { inboxResource } from './inbox.ts'
import { installedPackagesResource } from './installed-packages.ts'
import { invitesResource } from './invites.ts'
import { modelKeysResource } from './model-keys.ts'
import { networkRulesResource } from './network-rules.ts'
import { oauthClientsResource } from './oauth-clients.ts'
import { onboardingResource } from './onboarding.ts'
import { onboardingGatesResource } from './onboarding-gates.ts'
import { passkeysResource } from './passkeys.ts'
import { pendingActionsResource } from './pending-actions.ts'
import { proxydRoutesResource } from './proxyd-routes.ts'
import { routeTokensResource } from './route-tokens.ts'
import { routesResource } from './routes.ts'
import { scheduledTasksResource } from './scheduled-tasks.ts'
import { secretsResource } from './secrets.ts'
import { sessionsResource } from './sessions.ts'
import { settingsResource } from './settings.ts'
import { signingKeysResource } from './signing-keys.ts'
import { turnsResource } from './turns.ts'
import { usersResource } from './users.ts'
import { webHostsResource } from './web-hosts.ts'
import { webRoutesResource } from './web-routes.ts'

export const resources: readonly Resource[] = [
  groupsResource,
  routesResource,
  webRoutesResource,
  webHostsResource,
  aclResource,
  aclMembershipResource,
  secretsResource,
  routeTokensResource,
  installedPackagesResource,
  scheduledTasksResource,
  networkRulesResource,
  proxydRoutesResource,
  onboardingResource,
  onboardingGatesResource,
  invitesResource,
  auditResource,
  signingKeysResource,
  sessionsResource,
  usersResource,
  accountsResource,
  identitiesResource,
  inboxResource,
  channelSecretsResource,
  channelAccountsResource,
  conversationsResource,
  channelRegistrationsResource,
  modelKeysResource,
  settingsResource,
  oauthClientsResource,
  bearersResource,
  passkeysResource,
  turnsResource,
  pendingActionsResource,
  costLogResource,
  folderTurnsResource,
]
