// What each path of the admin listener answers. Reading is open; whatever changes the registry needs the secret, if there
// is one.
import { METRICS_TYPE } from '../../lib/metrics.ts'
import { readRegistration, readRemoval, warningsOf } from '../registration.ts'
import type { DeniedHost, Snapshot } from '../snapshot.ts'
import type { Sources } from '../sources.ts'
import { metricsText } from './metrics.ts'

export interface AdminParts {
  readonly sources: Sources
  snapshot(): Promise<Snapshot>
  /** Whether the forward listener takes connections; `none` when there is none by configuration. */
  testForward(): Promise<'alive' | 'dead' | 'none'>
  isDraining(): boolean
  /** None, or an empty one: whoever reaches the listener may change the registry. */
  readonly secret?: string | undefined
  /** Names that requests may have in their Host field, besides those that no stranger can point here. */
  readonly hosts?: readonly string[] | undefined
}

export interface Answer {
  readonly status: number
  readonly type?: string
  readonly text: string
}

export type Route =
  | { readonly method: 'GET'; answer(parts: AdminParts): Promise<Answer> }
  /** `body` is any JSON. */
  | { readonly method: 'POST'; answer(parts: AdminParts, body: unknown): Promise<Answer> }

export const ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['/v1/register', { method: 'POST', answer: register }],
  ['/v1/unregister', { method: 'POST', answer: unregister }],
  ['/v1/state', { method: 'GET', answer: async ({ sources }) => json(200, sources.list()) }],
  [
    '/v1/denied',
    { method: 'GET', answer: async ({ snapshot }) => json(200, (await snapshot()).denied.map(shownDenied)) },
  ],
  ['/health', { method: 'GET', answer: health }],
  ['/metrics', { method: 'GET', answer: metrics }],
])

async function register({ sources }: AdminParts, body: unknown): Promise<Answer> {
  const entry = await sources.set(readRegistration(body))
  const warnings = warningsOf(entry.allowlist)
  return json(200, warnings.length === 0 ? entry : { ...entry, warnings })
}

async function unregister({ sources }: AdminParts, body: unknown): Promise<Answer> {
  return json(200, { removed: await sources.remove(readRemoval(body)) })
}

async function health({ isDraining, testForward }: AdminParts): Promise<Answer> {
  if (isDraining()) return json(503, { status: 'draining' })
  const forward = await testForward()
  if (forward === 'dead') return json(503, { status: 'proxy_down' })
  return json(200, forward === 'none' ? { status: 'ok', proxy: 'disabled' } : { status: 'ok' })
}

async function metrics({ sources, snapshot }: AdminParts): Promise<Answer> {
  return { status: 200, type: METRICS_TYPE, text: metricsText(await snapshot(), sources.size) }
}

function shownDenied({ ip, id, host, port, sni, reason, count, firstMs, lastMs }: DeniedHost) {
  const at = (ms: number): string => new Date(ms).toISOString()
  return { ip, id, host, port, sni, reason, count, first_at: at(firstMs), last_at: at(lastMs) }
}

function json(status: number, value: unknown): Answer {
  return { status, text: `${JSON.stringify(value)}\n` }
}
