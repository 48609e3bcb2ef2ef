// The logs of a folder's turns: what each is called, and how long they are kept.
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { groups } from '../../core/groups.ts'
import { openHome } from '../../core/home.ts'
import type { GroupDirs, Layout } from '../../core/layout.ts'
import { timestamp } from '../../lib/clock.ts'
import { Directory } from '../../lib/directory.ts'
import type { Log } from '../../lib/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'

/** Whichever is less: what is older, and what is more, goes. */
export const KEPT_MS = 30 * 24 * 3_600_000
export const KEPT_MAX = 1000

/** Not in the way of the start, and then now and then. */
const FIRST_MS = 60_000
const AGAIN_MS = 3_600_000

const NAME = /^\d{4}-\d{2}-\d{2}-.+\.log$/

/** Names sort by the day of the turn, then by the age of its message. */
export function turnLogFile({ logs }: Pick<GroupDirs, 'logs'>, turnId: string, now: number): string {
  return join(logs, `${timestamp(now).slice(0, 10)}-${turnId}.log`)
}

/** Removes expired logs of a directory and returns how many. Files with other names are not touched. */
async function pruneDirectory(directory: Directory, now: number): Promise<number> {
  const files = (await directory.entries()).filter((file) => file.isFile() && NAME.test(file.name))
  const names = files.map(({ name }) => name)
  const oldest = timestamp(now - KEPT_MS).slice(0, 10)
  const expired = names.filter((name, at) => name < oldest || at < names.length - KEPT_MAX)
  for (const name of expired) await directory.removeFile(name)
  return expired.length
}

/** Of every folder that has logs, also of those whose group is gone. */
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

/** Earlier versions kept a folder's logs in its workspace, where the agent may have put anything in their place. */
export async function pruneFormerLogs(layout: Layout, folder: string, now: number): Promise<number> {
  try {
    await using home = await openHome(layout, folder)
    await using directory = await home?.openPath('logs/turns')
    return directory ? await pruneDirectory(directory, now) : 0
  } catch (error) {
    if (error instanceof Refusal) return 0
    throw error
  }
}

export interface Keeping {
  readonly host: Pick<Host, 'engine' | 'clock'>
  readonly layout: Layout
  readonly log: Log
  readonly firstMs?: number
}

/** Prunes the logs of every folder, one after the other, until it is told to stop; several processes may do it. */
export function keepTurnLogs(keeping: Keeping): () => Promise<void> {
  const stopping = new AbortController()
  const kept = keepOn(keeping, stopping.signal)
  return async () => {
    stopping.abort()
    await kept
  }
}

async function keepOn(keeping: Keeping, signal: AbortSignal): Promise<void> {
  for (let waitMs = keeping.firstMs ?? FIRST_MS; ; waitMs = AGAIN_MS) {
    await pause(waitMs, undefined, { ref: false, signal }).catch(() => undefined)
    if (signal.aborted) return
    await pruneAll(keeping, signal).catch((error) => keeping.log.warn({ err: error }, 'old logs of turns stay'))
  }
}

async function pruneAll({ host, layout, log }: Keeping, signal: AbortSignal): Promise<void> {
  let count = await pruneTurnLogs(layout, host.clock.now(), signal)
  for (const { folder } of await host.engine.read((tx) => groups.list(tx))) {
    if (signal.aborted) break
    count += await pruneFormerLogs(layout, folder, host.clock.now())
  }
  if (count > 0) log.debug({ count }, 'removed old turn logs')
}
