// Sentences about the connections that adapters report.
import type { ConnectionState, HealthReport } from './channel-registrations.ts'

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
