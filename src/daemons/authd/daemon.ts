// authd: signs bearer tokens and serves the public keys and the sessions.
import { ensureSigningKey, publicKeys } from '../../core/access/bearers.ts'
import { defineDaemon } from '../daemon.ts'

export const authd = defineDaemon({
  name: 'authd',
  about: 'signs bearer tokens',
  start: async ({ host, app }) => {
    await ensureSigningKey(host)
    // Public, so that other programs can verify bearers.
    app.get('/v1/keys', async (c) => c.json(await publicKeys(host), 200, { 'Cache-Control': 'public, max-age=300' }))
  },
})
