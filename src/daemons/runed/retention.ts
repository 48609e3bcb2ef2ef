// Removes messages, turns and audit rows that are older than KEEP_MESSAGES, KEEP_TURNS and KEEP_AUDIT, in small steps with long pauses, so that
// incoming messages take precedence. Several processes may run it.
import { removeChatDirectories } from '../../core/chats/chat-home.ts'
import { finishTopicRemovals } from '../../core/chats/topic-removal.ts'
import { removeChatFiles } from '../../core/files/stray-files.ts'
import type { Layout } from '../../core/layout.ts'
import { type RetentionProgress, removeMessages, removeSessions, removeTurns } from '../../core/messages/retention.ts'
import { checkClock, findHeldRemoval, type RetentionTimes } from '../../core/messages/retention-clock.ts'
import { type Clock, monotonicClock, timestamp } from '../../lib/clock.ts'
import type { Log } from '../../lib/log/log.ts'
import { pauseAfterStep } from '../../lib/step-pause.ts'
import { removeAudit } from '../../registry/audit-retention.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { startPeriodicJob } from '../process/periodic-job.ts'
import { removeTurnLogs } from './turn-logs.ts'

export interface RetentionOptions {
  readonly host: Pick<InstanceHost, 'engine' | 'clock'>
  readonly layout: Layout
  readonly log: Pick<Log, 'info' | 'warn'>
  /** 0 means forever. Read at each run. */
  readonly keep: RetentionTimes
  /** The monotonic clock; default: that of the process. */
  readonly monotonic?: Clock
  /** Rows per transaction. */
  readonly stepRows?: number
  readonly firstMs?: number
}

const STEP_ROWS = 100
/** Late enough not to slow down the start. */
const FIRST_MS = 60_000
const EVERY_MS = 600_000

export function startRetention(options: RetentionOptions): () => Promise<void> {
  const readTime = believedTimeReader(options)
  return startPeriodicJob({
    firstMs: options.firstMs ?? FIRST_MS,
    everyMs: EVERY_MS,
    run: async (signal) => removeExpired(options, signal, await readTime()),
    onError: (error) => options.log.warn({ err: error }, 'cannot remove expired messages, turns and audit rows'),
  })
}

/** Returns a function that checks the clock and returns the time by which rows may be removed. Logs once if it is held back. */
function believedTimeReader({ host, log, keep, monotonic = monotonicClock }: RetentionOptions): () => Promise<number> {
  const { engine, clock } = host
  let [checkedAt, isHeld] = [monotonic.now(), false]
  return async () => {
    const [now, at] = [clock.now(), monotonic.now()]
    const [believed, held] = await engine.transaction(async (tx) => [
      await checkClock(tx, now, at - checkedAt),
      await findHeldRemoval(tx, now, keep),
    ])
    checkedAt = at
    if (held && !isHeld)
      log.warn(
        { clock: timestamp(now), removes_as_of: timestamp(believed), wait_minutes: Math.ceil(held.waitMs / 60_000) },
        'the clock has moved ahead: rows that are old only by the new time stay until svc has run for a day',
      )
    isHeld = held !== undefined
    return believed
  }
}

/** Removes all that is expired at `now`, and the remaining rows of deleted topics; stops between two steps when aborted. */
export async function removeExpired(options: RetentionOptions, signal: AbortSignal, now: number): Promise<void> {
  const { host, layout, log, stepRows: limit = STEP_ROWS } = options
  const { KEEP_MESSAGES: keepMessagesMs, KEEP_TURNS: keepTurnsMs, KEEP_AUDIT: keepAuditMs } = options.keep
  const { engine } = host
  const messages = await inSteps(signal, keepMessagesMs, 0, async (after) => {
    const before = now - keepMessagesMs
    const step = await engine.transaction((tx) => removeMessages(tx, engine.dialect, { before, now, after, limit }))
    await removeChatFiles(layout, step.files)
    for (const chat of step.emptied)
      await removeChatDirectories(layout, chat).catch((error) => {
        log.warn({ err: error, chat: chat.jid }, 'cannot remove the directory of a chat')
      })
    return step
  })
  const turns = await inSteps(signal, keepTurnsMs, '', async (after) => {
    const step = await engine.transaction((tx) => removeTurns(tx, { before: now - keepTurnsMs, after, limit }))
    await removeTurnLogs(layout, step.turns)
    return step
  })
  await inSteps(signal, keepTurnsMs, 0, (after) =>
    engine.transaction((tx) => removeSessions(tx, { before: now - keepTurnsMs, after, limit })),
  )
  const audit = await inSteps(signal, keepAuditMs, 0, (after) =>
    engine.transaction((tx) => removeAudit(tx, { before: now - keepAuditMs, after, limit })),
  )
  await finishTopicRemovals({ engine, clock: host.clock, layout }, undefined, signal)
  if (messages + turns > 0)
    log.info({ messages, turns }, 'removed messages and turns older than KEEP_MESSAGES and KEEP_TURNS')
  if (audit > 0) log.info({ audit }, 'removed audit rows older than KEEP_AUDIT')
}

async function inSteps<Cursor>(
  signal: AbortSignal,
  keepMs: number,
  first: Cursor,
  step: (after: Cursor) => Promise<RetentionProgress<Cursor>>,
): Promise<number> {
  let removed = 0
  for (let next: Cursor | undefined = keepMs === 0 ? undefined : first; next !== undefined && !signal.aborted; ) {
    const started = performance.now()
    const progress: RetentionProgress<Cursor> = await step(next)
    removed += progress.removed
    next = progress.next
    if (next !== undefined) await pauseAfterStep(started, signal)
  }
  return removed
}
