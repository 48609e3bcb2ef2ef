// The style sheet and the script of the dashboard: built once, compressed once per encoding, cached by browsers for good, because
// their paths contain a hash of their content.
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Hono } from 'hono'
import { lazy } from '../../lib/lazy.ts'
import { refuse } from '../../lib/refusal.ts'
import { buildScript, wrapInFunction } from '../../web/chat/script.ts'
import { createScriptHandler } from '../../web/chat/script-response.ts'
import { DASH_STYLE } from '../../web/dash/style.ts'

const FOREVER = 'public, max-age=31536000, immutable'

interface DashAsset {
  readonly path: string
  readonly type: string
  readonly body: string
}

export interface DashAssets {
  readonly style: string
  readonly script: string
}

const require = createRequire(import.meta.url)

const readAssets = lazy((): readonly [style: DashAsset, script: DashAsset] => {
  const parts = ['htmx.org/dist/htmx.min.js', 'htmx.org/dist/ext/hx-sse.min.js'].map((name) =>
    readFileSync(require.resolve(name), 'utf8'),
  )
  const script = [...parts, wrapInFunction(buildScript('dash'), {})].join('\n;')
  return [
    assetOf('dash.css', 'text/css; charset=utf-8', DASH_STYLE),
    assetOf('dash.js', 'text/javascript; charset=utf-8', script),
  ]
})

function assetOf(name: string, type: string, body: string): DashAsset {
  return { path: `/dash/assets/${hash('sha256', body, 'hex').slice(0, 16)}/${name}`, type, body }
}

export function dashAssets(): DashAssets {
  const [style, script] = readAssets()
  return { style: style.path, script: script.path }
}

/**
 * Public: they contain nothing of the instance. A page of another version, which a server has sent before or during an upgrade, gets the
 * files of this one: without them it would be bare text.
 */
export function mountAssets(app: Hono): void {
  const handlers = new Map(
    readAssets().map(({ path, type, body }) => [
      path,
      createScriptHandler(() => ({ headers: { 'Content-Type': type }, body })),
    ]),
  )
  app.get('/dash/assets/:hash/:name', async (c) => {
    const current = readAssets().find(({ path }) => path.endsWith(`/${c.req.param('name')}`))?.path ?? ''
    const handler = handlers.get(current)
    if (!handler) refuse('not_found', 'there is nothing at this path')
    const { status, headers, body } = await handler({
      acceptEncoding: c.req.header('Accept-Encoding'),
      ifNoneMatch: c.req.header('If-None-Match'),
    })
    return new Response((body ?? null) as Uint8Array<ArrayBuffer> | null, {
      status,
      headers: { ...headers, 'Cache-Control': c.req.path === current ? FOREVER : 'no-store' },
    })
  })
}
