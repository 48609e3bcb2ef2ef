// What an adapter reports of its connection to the platform, in the body of its health check.
import { z } from 'zod'

export const ConnectionState = z
  .enum(['ok', 'connecting', 'stale', 'login_needed', 'refused'])
  .describe(
    'stale: no message for a while; login_needed: a person must sign in; refused: the platform refuses the account',
  )
export type ConnectionState = z.output<typeof ConnectionState>

export interface HealthReport {
  readonly state: ConnectionState
  /** One line without control characters. */
  readonly detail?: string | undefined
  /** RFC 3339. */
  readonly since?: string | undefined
  /** The content of a QR code that signs in to the platform: a secret. */
  readonly qr?: string | undefined
}

export interface HealthCheck {
  /** Whether the process answers. It is removed after failed checks, but not because its platform refuses it. */
  readonly isAlive: boolean
  readonly report?: HealthReport | undefined
}

/** States that only a person can end. */
export const NEEDS_PERSON: readonly ConnectionState[] = ['login_needed', 'refused']

const SENTENCES: Readonly<Record<ConnectionState, string>> = {
  ok: 'is connected',
  connecting: 'is connecting',
  stale: 'has received nothing',
  login_needed: 'needs a sign-in at its platform',
  refused: 'is refused by its platform',
}

/** Completes the sentence that begins with the adapter's name. */
export function describeConnection({ state, detail, since }: Omit<HealthReport, 'qr'>): string {
  return `${SENTENCES[state]}${since === undefined ? '' : ` since ${since}`}${detail === undefined ? '' : `: ${detail}`}`
}
