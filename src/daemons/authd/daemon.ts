// authd: signs people in, keeps their sessions, and signs bearer tokens.
import { ensureSigningKey, publicKeys } from '../../core/access/bearers.ts'
import { defineDaemon } from '../daemon.ts'
import { SIGN_IN_SETTINGS } from '../settings.ts'
import { mountAccountPages } from './account-pages.ts'
import { mountPersonChat } from './person-chat.ts'
import { parseSignInAllowlist } from './sign-in-allowlist.ts'
import { mountSignInPages } from './sign-in-pages.ts'

export const authd = defineDaemon({
  name: 'authd',
  about: 'signs people in and signs bearer tokens',
  settings: SIGN_IN_SETTINGS,
  start: async ({ host, app }, settings) => {
    await ensureSigningKey(host)
    // Public, so that other programs can verify bearers.
    app.get('/v1/keys', async (c) => c.json(await publicKeys(host), 200, { 'Cache-Control': 'public, max-age=300' }))
    const isAllowed = parseSignInAllowlist(settings.SIGN_IN_ALLOW)
    const signIn = { host, isAllowed, idleMs: settings.SESSION_IDLE, maxMs: settings.SESSION_MAX }
    mountSignInPages(app, signIn)
    mountAccountPages(app, host)
    mountPersonChat(app, host)
  },
})
