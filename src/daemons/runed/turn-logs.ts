// Removal of the log files of turns.
import { basename } from 'node:path'
import { removeStrayFiles } from '../../core/files/stray-files.ts'
import { groups } from '../../core/groups/groups.ts'
import { openHome } from '../../core/groups/workspace-home.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import type { RemovedTurn } from '../../core/messages/retention.ts'
import { believedTime } from '../../core/messages/retention-clock.ts'
import { turnLogFile } from '../../core/turns/turn-log-files.ts'
import { timestamp } from '../../lib/clock.ts'
import { Directory } from '../../lib/files/directory.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { startPeriodicJob } from '../process/periodic-job.ts'

/** Both limits apply, per folder. */
export const TURN_LOG_RETENTION_MS = 30 * 24 * 3_600_000
export const TURN_LOGS_MAX = 1000

/** Late enough not to slow down the start. */
const FIRST_MS = 60_000
const EVERY_MS = 3_600_000

const NAME = /^\d{4}-\d{2}-\d{2}-.+\.log$/

/** Removes expired logs of a directory and returns how many. Files with other names are not touched. */
async function pruneDirectory(directory: Directory, now: number): Promise<number> {
  const files = (await directory.entries()).filter((file) => file.isFile() && NAME.test(file.name))
  const names = files.map(({ name }) => name)
  const oldest = timestamp(now - TURN_LOG_RETENTION_MS).slice(0, 10)
  const expired = names.filter((name, at) => name < oldest || at < names.length - TURN_LOGS_MAX)
  for (const name of expired) await directory.removeFile(name)
  return expired.length
}

/** Removes the logs of removed turns: one for each day on which they ran. */
export async function removeTurnLogs(layout: Layout, turns: readonly RemovedTurn[]): Promise<void> {
  await using all = turns.length === 0 ? undefined : await Directory.open(layout.logs, { follow: true })
  for (const { id, folder, started_at, ended_at } of turns) {
    const { logs } = groupDirs(layout, folder)
    await using directory = await all?.openDirectory(basename(logs))
    for (const day of daysBetween(started_at, ended_at))
      await directory?.removeFile(basename(turnLogFile({ logs }, id, day)))
  }
}

const DAY_MS = 24 * 3_600_000

/** A time of each day, for at most as many days as logs are kept. */
function daysBetween(from: string, to: string): number[] {
  const [first, last] = [from, to].map((at) => Math.floor(Date.parse(at) / DAY_MS)) as [number, number]
  const count = Math.min(last - first, TURN_LOG_RETENTION_MS / DAY_MS) + 1
  return Array.from({ length: count }, (_, at) => (last - at) * DAY_MS)
}

/** Covers the logs of removed groups too. */
export async function pruneTurnLogs({ logs }: Layout, now: number, signal?: AbortSignal): Promise<number> {
  await using all = await Directory.open(logs, { follow: true })
  let count = 0
  for (const { name } of (await all?.entries()) ?? []) {
    if (signal?.aborted) break
    await using directory = await all?.openDirectory(name)
    if (directory) count += await pruneDirectory(directory, now)
  }
  return count
}

/** Earlier versions kept logs in the workspace, where agents may have replaced them by anything. */
export async function pruneLegacyLogs(layout: Layout, folder: string, now: number): Promise<number> {
  try {
    await using home = await openHome(layout, folder)
    await using directory = await home?.openPath('logs/turns')
    return directory ? await pruneDirectory(directory, now) : 0
  } catch (error) {
    if (error instanceof Refusal) return 0
    throw error
  }
}

export interface TurnLogRetentionOptions {
  readonly host: Pick<InstanceHost, 'engine' | 'clock'>
  readonly layout: Layout
  readonly log: Log
  readonly firstMs?: number
}

/** Several processes may run it. */
export function startTurnLogRetention(options: TurnLogRetentionOptions): () => Promise<void> {
  return startPeriodicJob({
    firstMs: options.firstMs ?? FIRST_MS,
    everyMs: EVERY_MS,
    run: (signal) => pruneAll(options, signal),
    onError: (error) => options.log.warn({ err: error }, 'cannot remove old turn logs'),
  })
}

async function pruneAll({ host, layout, log }: TurnLogRetentionOptions, signal: AbortSignal): Promise<void> {
  const now = await host.engine.read((tx) => believedTime(tx, host.clock.now()))
  let count = await pruneTurnLogs(layout, now, signal)
  for (const { folder } of await host.engine.read((tx) => groups.list(tx))) {
    if (signal.aborted) break
    count += await pruneLegacyLogs(layout, folder, now)
  }
  if (count > 0) log.debug({ count }, 'removed old turn logs')
  const files = await removeStrayFiles({ engine: host.engine, layout }, { now, signal })
  if (files > 0) log.info({ files }, 'removed files of chats that no message has')
}
