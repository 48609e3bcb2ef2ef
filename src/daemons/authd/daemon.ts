// Who is who: the keys that sign bearers, and the sessions.
import { ensureSigningKey, publicKeys } from '../../core/bearers.ts'
import { daemon } from '../daemon.ts'

export const authd = daemon({
  name: 'authd',
  about: 'signs bearers and keeps the keys',
  start: async ({ host, app }) => {
    await ensureSigningKey(host)
    // Hand-written: it has no row. Others check bearers with it, so it is public.
    app.get('/v1/keys', async (c) => c.json(await publicKeys(host), 200, { 'Cache-Control': 'public, max-age=300' }))
  },
})
