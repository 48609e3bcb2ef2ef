// The routes of the admin listener. Reading is open; changes of the registry need the secret, if one is set.
import { METRICS_TYPE } from '../../lib/log/metrics.ts'
import { allowlistWarnings, readRegistration, readUnregistration } from '../policy/registration.ts'
import type { SourceRegistry } from '../policy/source-registry.ts'
import type { DeniedHost, MetricsSnapshot } from '../reporting/metrics-snapshot.ts'
import { metricsText } from './metrics.ts'

export interface AdminContext {
  readonly sources: SourceRegistry
  snapshot(): Promise<MetricsSnapshot>
  /** Whether the forward listener accepts connections; `none` if it is switched off. */
  testForward(): Promise<'alive' | 'dead' | 'none'>
  isDraining(): boolean
  /** Absent or empty: anyone who reaches the listener may change the registry. */
  readonly secret?: string | undefined
  /** Allowed Host names besides those that strangers cannot point here. */
  readonly hosts?: readonly string[] | undefined
}

export interface AdminResponse {
  readonly status: number
  readonly type?: string
  readonly text: string
}

export type AdminRoute =
  | { readonly method: 'GET'; answer(context: AdminContext): Promise<AdminResponse> }
  /** `body` is any JSON. */
  | { readonly method: 'POST'; answer(context: AdminContext, body: unknown): Promise<AdminResponse> }

export const ADMIN_ROUTES: ReadonlyMap<string, AdminRoute> = new Map<string, AdminRoute>([
  ['/v1/register', { method: 'POST', answer: register }],
  ['/v1/unregister', { method: 'POST', answer: unregister }],
  ['/v1/state', { method: 'GET', answer: async ({ sources }) => json(200, sources.list()) }],
  [
    '/v1/denied',
    { method: 'GET', answer: async ({ snapshot }) => json(200, (await snapshot()).denied.map(shownDenied)) },
  ],
  ['/health', { method: 'GET', answer: health }],
  ['/healthz', { method: 'GET', answer: health }],
  ['/metrics', { method: 'GET', answer: metrics }],
])

async function register({ sources }: AdminContext, body: unknown): Promise<AdminResponse> {
  const entry = await sources.set(readRegistration(body))
  const warnings = allowlistWarnings(entry.allowlist)
  return json(200, warnings.length === 0 ? entry : { ...entry, warnings })
}

async function unregister({ sources }: AdminContext, body: unknown): Promise<AdminResponse> {
  return json(200, { removed: await sources.remove(readUnregistration(body)) })
}

async function health({ isDraining, testForward }: AdminContext): Promise<AdminResponse> {
  if (isDraining()) return json(503, { status: 'draining' })
  const forward = await testForward()
  if (forward === 'dead') return json(503, { status: 'proxy_down' })
  return json(200, forward === 'none' ? { status: 'ok', proxy: 'disabled' } : { status: 'ok' })
}

async function metrics({ sources, snapshot }: AdminContext): Promise<AdminResponse> {
  return { status: 200, type: METRICS_TYPE, text: metricsText(await snapshot(), sources.size) }
}

function shownDenied({ ip, id, host, port, sni, reason, count, firstMs, lastMs }: DeniedHost) {
  const at = (ms: number): string => new Date(ms).toISOString()
  return { ip, id, host, port, sni, reason, count, first_at: at(firstMs), last_at: at(lastMs) }
}

function json(status: number, value: unknown): AdminResponse {
  return { status, text: `${JSON.stringify(value)}\n` }
}
