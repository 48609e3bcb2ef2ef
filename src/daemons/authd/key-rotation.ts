// Replaces the signing key when it has reached SIGNING_KEY_AGE. Several processes may run it; one of them rotates.
import { findActiveKey, isKeyOld } from '../../core/secrets/signing-key-rotation.ts'
import type { Log } from '../../lib/log/log.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { signingKeysResource } from '../../resources/signing-keys.ts'
import { startPeriodicJob } from '../process/periodic-job.ts'

export interface KeyRotationOptions {
  readonly host: InstanceHost
  readonly log: Pick<Log, 'info' | 'warn'>
  /** 0 means never. */
  readonly ageMs: number
}

const EVERY_MS = 3_600_000

/** Checks at once and then every hour. Returns a function that stops it. */
export function startKeyRotation(options: KeyRotationOptions): () => Promise<void> {
  return startPeriodicJob({
    firstMs: 0,
    everyMs: EVERY_MS,
    run: () => rotateDueKey(options),
    onError: (error) => options.log.warn({ err: error }, 'cannot rotate the signing key'),
  })
}

export async function rotateDueKey({ host, log, ageMs }: KeyRotationOptions): Promise<void> {
  if (ageMs === 0) return
  // Most checks find a young key and need no write transaction.
  const active = await host.engine.read(findActiveKey)
  if (!isKeyOld(active, host.clock.now(), ageMs)) return
  const request = { host, caller: { kind: 'host', sub: 'authd' }, face: 'cli' } as const
  const { kid } = await callVerb(request, signingKeysResource.verbs.rotate_by_age, { age_ms: ageMs })
  if (kid !== undefined) log.info({ kid }, 'replaced the signing key, which has reached SIGNING_KEY_AGE')
}
