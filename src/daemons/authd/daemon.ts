// authd: signs people in, keeps their sessions, and signs bearer tokens.
import { publicKeys } from '../../core/access/bearers.ts'
import { ensureSigningKey } from '../../core/secrets/signing-key-rotation.ts'
import { defineDaemon } from '../daemon.ts'
import { SIGN_INS } from '../http/sign-in.ts'
import { signInAllowlist } from '../http/sign-in-allowlist.ts'
import { readProviderSettings } from '../provider-settings.ts'
import { SIGN_IN_SETTINGS } from '../settings.ts'
import { mountAccountLinks } from './account-links.ts'
import { mountAccountPages } from './account-pages.ts'
import { openAttemptLimits } from './attempt-limits.ts'
import { mountBearerPages } from './bearer-pages.ts'
import { startKeyRotation } from './key-rotation.ts'
import { mountAuthorizationServer } from './oauth/authorization-server.ts'
import { allowEveryOrigin } from './oauth/oauth-response.ts'
import { mountPasskeyPages } from './passkey-pages.ts'
import { mountPasskeyRoutes } from './passkey-routes.ts'
import { mountPersonChat } from './person-chat.ts'
import { mountProviderPages } from './provider-pages.ts'
import { openProviders } from './providers.ts'
import { startSessionCleanup } from './session-cleanup.ts'
import { mountSignInPages } from './sign-in-pages.ts'

export const authd = defineDaemon({
  name: 'authd',
  about: 'signs people in and signs bearer tokens',
  settings: SIGN_IN_SETTINGS,
  metrics: [SIGN_INS],
  start: async ({ host, app, log, currentSources, defer }, settings) => {
    const providers = openProviders(readProviderSettings(await currentSources()), host.clock)
    await ensureSigningKey(host)
    defer(startKeyRotation({ host, log, ageMs: settings.SIGNING_KEY_AGE }))
    defer(startSessionCleanup({ host, log }))
    // Public, so that other programs can verify bearers.
    allowEveryOrigin(app, '/v1/keys')
    app.get('/v1/keys', async (c) => c.json(await publicKeys(host), 200, { 'Cache-Control': 'public, max-age=300' }))
    const isAllowed = signInAllowlist(() => settings.SIGN_IN_ALLOW)
    const signIn = { host, isAllowed, settings }
    const context = { ...signIn, providers, limits: openAttemptLimits(host.clock) }
    mountSignInPages(app, context)
    mountProviderPages(app, context)
    mountAccountPages(app, host, providers)
    mountAccountLinks(app, host)
    mountPersonChat(app, host)
    mountAuthorizationServer(app, { host, isAllowed, acceptsDocuments: () => settings.OAUTH_CLIENT_DOCUMENTS })
    mountBearerPages(app, host)
    mountPasskeyPages(app, host)
    mountPasskeyRoutes(app, { ...context, log })
  },
})
