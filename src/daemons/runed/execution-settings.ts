// Settings and metrics of running turns. Loads nothing that runs them: the front only declares them.
import { CALLS_LIMITED } from '../../core/access/call-rate-limit.ts'
import { NETWORK_DENIED } from '../../core/access/network-denials.ts'
import { DELIVERIES } from '../../core/delivery/delivery.ts'
import { COST_CENTS, TOKENS } from '../../core/turns/costs.ts'
import type { Settings } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { INSTANCE_SETTINGS, TRANSCRIPTION_SETTINGS, TURN_SETTINGS } from '../settings.ts'
import { TURN_METRICS } from './turn-metrics.ts'

export const EXECUTION_SETTINGS = {
  ...RUNTIME_SETTINGS,
  ...TRANSCRIPTION_SETTINGS,
  ASSISTANT_NAME: INSTANCE_SETTINGS.ASSISTANT_NAME,
  TURN_LEASE: TURN_SETTINGS.TURN_LEASE,
}
export type ExecutionSettings = Settings<typeof EXECUTION_SETTINGS>

export const EXECUTION_METRICS = [...TURN_METRICS, COST_CENTS, TOKENS, DELIVERIES, NETWORK_DENIED, CALLS_LIMITED]

export function leaseOf({ TURN_LEASE }: Pick<ExecutionSettings, 'TURN_LEASE'>): number {
  return Math.max(1000, TURN_LEASE)
}
