// The logs of a folder's turns: what each is called, and how long they are kept.
import { readdir, realpath, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { groups } from '../../core/groups.ts'
import { type GroupDirs, groupDirs, type Layout } from '../../core/layout.ts'
import { timestamp } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Host } from '../../registry/context.ts'

/** Whichever is less: what is older, and what is more, goes. */
export const KEPT_MS = 30 * 24 * 3_600_000
export const KEPT_MAX = 1000

/** Not in the way of the start, and then now and then. */
const FIRST_MS = 60_000
const AGAIN_MS = 3_600_000

const NAME = /^\d{4}-\d{2}-\d{2}-.+\.log$/

type Dirs = Pick<GroupDirs, 'home' | 'logs'>

/** Names sort by the day of the turn, then by the age of its message. */
export function turnLogFile({ logs }: Pick<Dirs, 'logs'>, turnId: string, now: number): string {
  return join(logs, 'turns', `${timestamp(now).slice(0, 10)}-${turnId}.log`)
}

/** Removes what is not kept; how many that were. What does not bear the name of a log is not touched. */
export async function pruneTurnLogs({ home, logs }: Dirs, now: number): Promise<number> {
  const folder = join(logs, 'turns')
  if (!(await isOwn(home, folder))) return 0
  const files = (await readdir(folder, { withFileTypes: true })).filter((file) => file.isFile() && NAME.test(file.name))
  const names = files.map(({ name }) => name).sort()
  const oldest = timestamp(now - KEPT_MS).slice(0, 10)
  const gone = names.filter((name, at) => name < oldest || at < names.length - KEPT_MAX)
  for (const name of gone) await rm(join(folder, name), { force: true })
  return gone.length
}

/** There, and where it says: the agent can write here, and must not lead us elsewhere by a link. */
async function isOwn(home: string, folder: string): Promise<boolean> {
  try {
    return (await realpath(folder)) === join(await realpath(home), relative(home, folder))
  } catch {
    return false
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
  for (const { folder } of await host.engine.read((tx) => groups.list(tx))) {
    if (signal.aborted) return
    const count = await pruneTurnLogs(groupDirs(layout, folder), host.clock.now())
    if (count > 0) log.debug({ folder, count }, 'old logs of turns removed')
  }
}
