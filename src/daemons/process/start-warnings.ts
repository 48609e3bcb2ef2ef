// What an operator should know when an instance is served, because it fails only later: secrets that cannot be opened, and
// commits that are missing.
import { findUnreadable, listSealedRows } from '../../core/secrets/sealed-rows.ts'
import type { Log } from '../../lib/log/log.ts'
import type { InstanceHost } from '../../registry/context.ts'

type StartLog = Pick<Log, 'warn' | 'error'>

export const NO_SECRETS_KEY = 'SECRETS_KEY is not set: secrets cannot be stored and bearers cannot be issued'

export async function warnAboutSecrets(
  { engine, keyring, instance }: Pick<InstanceHost, 'engine' | 'keyring' | 'instance'>,
  log: StartLog,
): Promise<void> {
  if (!keyring.hasKey) log.warn(NO_SECRETS_KEY)
  const unreadable = findUnreadable(await engine.read(listSealedRows), keyring)
  if (unreadable.length > 0)
    log.error(
      { count: unreadable.length, first: unreadable[0] },
      `stored secrets cannot be opened: SECRETS_KEY is missing or not the one that sealed them; see svc doctor ${instance}`,
    )
}

/** Returns a function that stops the watch for losses. */
export async function watchForLosses(
  { engine, clock, instance }: Pick<InstanceHost, 'engine' | 'clock' | 'instance'>,
  log: StartLog,
): Promise<() => Promise<void>> {
  const { lossWatch } = engine
  if (!lossWatch) return async () => {}
  const stop = await lossWatch.start(clock.now())
  for (const lost of await lossWatch.find())
    log.error(
      { lost },
      `the store lacks rows that were on the disk: its write-ahead log was lost or cut, or the file was replaced by an older one; see svc doctor ${instance}`,
    )
  return stop
}
