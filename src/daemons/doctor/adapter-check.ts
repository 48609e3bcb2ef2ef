// Checks registered adapters by the health in the store, and platforms whose messages nothing delivers.
import type { AdapterHealth } from '../../core/delivery/channel-registrations.ts'
import { asNote, type DoctorFinding, makeFinding } from './findings.ts'

export interface AdapterState {
  readonly adapters: readonly { readonly name: string; readonly health: AdapterHealth; readonly seen_at: string }[]
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
    ...platforms
      .filter(({ failed }) => failed > 0)
      .map(({ platform, failed }) => `${platform}: ${failed} not delivered`),
  ]
  const fine = adapters.length === 0 ? 'none is registered' : `all answer (${adapters.length})`
  return asNote(makeFinding('adapters', notes, fine, `svc channel ${instance} undelivered`))
}

function countOf(waiting: number): string {
  return waiting === 1 ? '1 message waits' : `${waiting} messages wait`
}
