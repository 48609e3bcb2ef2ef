import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resources } from '../../resources/index.ts'
import { daemonLookup } from './daemon-paths.ts'

const behind = daemonLookup(resources)

const TABLE: Record<string, string | undefined> = {
  '/v1/routes': 'routd',
  '/v1/routes/7': 'routd',
  '/v1/route_tokens/chat': 'routd',
  '/v1/tasks/due': 'routd',
  '/v1/groups': 'routd',
  '/v1/audit': 'routd',
  '/v1/sessions': 'authd',
  '/v1/signing_keys': 'authd',
  '/v1/keys': 'authd',
  '/v1/invites': 'onbod',
  '/v1/onboarding_gates/a': 'onbod',
  '/v1/onboarding': 'onbod',
  '/v1/proxyd_routes': 'proxyd',
  // Only tools and commands: no REST API, so no path.
  '/v1/network_rules': undefined,
  '/v1/users': undefined,
  '/v1/routesx': undefined,
  '/v1/': undefined,
  '/v1': undefined,
  '/v1/scheduled_tasks': undefined,
  '//v1/routes': undefined,
  '/channels/telegram/': 'routd',
  '/channelsx': undefined,
  '/chat/x/': 'webd',
  '/hook/x': 'webd',
  '/mcp': 'webd',
  '/openai/v1/models': 'webd',
  '/openaix': undefined,
  '/chatter': undefined,
  '/Hook/x': undefined,
  '/dash/': 'dashd',
  '/auth/login': 'authd',
  '/.well-known/oauth-authorization-server': 'authd',
  '/.well-known/openid-configuration': 'authd',
  '/.well-known/oauth-protected-resource': 'authd',
  '/.well-known/oauth-protected-resource/mcp': 'authd',
  '/.well-known/acme-challenge/x': undefined,
  '/.well-known': undefined,
  '/invite/x': 'onbod',
  '/pair/x': 'onbod',
  '/pub/team/': undefined,
  '/': undefined,
}

for (const [path, daemon] of Object.entries(TABLE)) {
  test(`${path} belongs to ${daemon ?? 'no daemon'}`, () => assert.equal(behind(path), daemon))
}
