// The runner process of an instance: claims turns and runs them, and has no listener.
import type { ChildProcess } from 'node:child_process'
import { getPriority, setPriority } from 'node:os'
import { FAULTS } from '../../lib/fault-boundary.ts'
import type { Log } from '../../lib/log/log.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import { CALLS } from '../../registry/call.ts'
import type { ProcessLine } from '../../supervisor/process-line.ts'
import { broadcastDrafts, sendDraftsOver } from '../process/draft-relay.ts'
import type { OpenHost } from '../process/host.ts'
import type { LiveSettings } from '../process/live-settings.ts'
import { openMetricsPage } from '../process/metrics-page.ts'
import { enterProcess } from '../process/process-entry.ts'
import {
  answerMetrics,
  bridgeSignals,
  measureLockWait,
  RUNNER_SIGNALS,
  shareWriteLock,
} from '../process/runner-process.ts'
import { withTracing } from '../process/tracing.ts'
import { EXECUTION_METRICS, EXECUTION_SETTINGS } from './execution-settings.ts'
import { executeTurns } from './turn-execution.ts'

/** On a busy machine the runner and the agents, which inherit this, leave the processor to the front. */
const PRIORITY = 5

export interface RunTurnsOptions {
  /** Closed by `close` and when the start fails. */
  readonly host: OpenHost
  readonly sources: readonly SettingSource[]
  readonly live: LiveSettings
  readonly log: Log
  readonly line: ProcessLine
  spawnRunner(turnId: string): ChildProcess
  /** Called once with an error after which the process should exit. */
  onFatal(error: unknown): void
}

export interface RunningTurns {
  /** Resolves when the only turn of this process is over. */
  readonly over: Promise<void>
  close(): Promise<void>
}

export async function runTurns(options: RunTurnsOptions): Promise<RunningTurns> {
  const { sources, line, onFatal } = options
  const opened = new AsyncDisposableStack()
  opened.defer(() => options.host.close())
  opened.defer(() => options.live.close())
  if (getPriority() < PRIORITY) setPriority(PRIORITY)
  try {
    const host = await withTracing({ ...options, daemons: ['runed'] }, opened)
    const log = options.log.child({ daemon: 'runed' })
    host.engine.failed.then((error) => onFatal(error)).catch(host.faults.handler('process'))
    host.metrics.declare([CALLS, FAULTS, ...EXECUTION_METRICS])
    const metricsPage = openMetricsPage(host.metrics)
    opened.defer(() => metricsPage.close())
    answerMetrics(line, () => metricsPage.text(), host.faults)
    opened.defer(bridgeSignals(line, host, RUNNER_SIGNALS))
    opened.defer(sendDraftsOver(line, host))
    // The runner sends on what the process of one turn sends to it.
    if (line.turnId === undefined) opened.defer(broadcastDrafts(host))
    shareWriteLock(line, host)
    measureLockWait(host)
    const over = Promise.withResolvers<void>()
    const only = line.turnId === undefined ? undefined : { turnId: line.turnId, onEnd: over.resolve }
    const entry = await enterProcess(host, [])
    opened.defer(() => entry.leave())
    const context = {
      host,
      log,
      entry,
      only,
      spawnRunner: options.spawnRunner,
      defer: (close: () => void | Promise<void>) => opened.defer(close),
      currentSources: () => options.live.sources(),
    }
    if (host.layout) await executeTurns(context, host.layout, readSettings(EXECUTION_SETTINGS, sources))
    line.ready()
    return { over: over.promise, close: () => opened.disposeAsync() }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}
