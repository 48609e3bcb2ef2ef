// Checks registered adapters by the health in the store, and platforms whose messages nothing delivers.
import type { AdapterHealth, HealthReport } from '../../core/delivery/channel-registrations.ts'
import { describeConnection, NEEDS_PERSON } from '../../core/delivery/health-reports.ts'
import { asNote, type DoctorFinding, makeFinding } from './findings.ts'

interface AdapterReport extends Omit<HealthReport, 'state' | 'qr'> {
  readonly name: string
  readonly health: AdapterHealth
  readonly seen_at: string
  readonly state?: HealthReport['state'] | undefined
}

export interface AdapterState {
  readonly adapters: readonly AdapterReport[]
  readonly platforms: readonly {
    readonly platform: string
    readonly delivered_by: 'built-in' | 'adapter' | 'nothing'
    readonly waiting: number
    readonly failed: number
  }[]
}

export function checkAdapters({ adapters, platforms }: AdapterState, instance: string): DoctorFinding {
  const faults = [
    ...adapters.filter(({ health }) => health === 'failing').map(({ name }) => `${name} does not answer`),
    ...connections(adapters, (state) => NEEDS_PERSON.includes(state)),
    ...platforms
      .filter(({ delivered_by, waiting }) => delivered_by === 'nothing' && waiting > 0)
      .map(({ platform, waiting }) => `${countOf(waiting)} for ${platform}, which has no adapter`),
  ]
  const next = `svc channel ${instance} status`
  if (faults.length > 0) return makeFinding('adapters', faults, '', next)
  const notes = [
    ...adapters
      .filter(({ health }) => health === 'unknown')
      .map(({ name }) => `${name} was not checked lately: routd does not run`),
    ...connections(adapters, (state) => state !== 'ok' && !NEEDS_PERSON.includes(state)),
    ...platforms
      .filter(({ failed }) => failed > 0)
      .map(({ platform, failed }) => `${platform}: ${failed} not delivered`),
  ]
  const fine = adapters.length === 0 ? 'none is registered' : `all answer (${adapters.length})`
  return asNote(makeFinding('adapters', notes, fine, `svc channel ${instance} undelivered`))
}

/** What answering adapters last reported. */
function connections(
  adapters: readonly AdapterReport[],
  isWanted: (state: HealthReport['state']) => boolean,
): string[] {
  return adapters.flatMap(({ name, health, state, detail, since }) =>
    state && health === 'healthy' && isWanted(state) ? [`${name} ${describeConnection({ state, detail, since })}`] : [],
  )
}

function countOf(waiting: number): string {
  return waiting === 1 ? '1 message waits' : `${waiting} messages wait`
}
