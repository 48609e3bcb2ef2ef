// Loaded into a served instance with `--import`: its front ends as soon as it reads a row with this text for its work, as a fault
// in native code would end it.
import { StatementSync } from 'node:sqlite'

export const DEADLY = 'deadly'
/** Statements that read a message to route and a task to fire. */
const WORK = [/ as has_envelope from messages /, / prompt.* from scheduled_tasks where /]

function isDeadly(value: unknown): boolean {
  const shown = value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value
  return typeof shown === 'string' && shown.includes(DEADLY)
}

if (process.env.SVC_PROCESS === 'front') {
  const { all } = StatementSync.prototype
  const readAll = function (this: StatementSync, ...args: unknown[]): unknown {
    const rows: Record<string, unknown>[] = Reflect.apply(all, this, args)
    if (WORK.some((pattern) => pattern.test(this.sourceSQL)) && rows.some((row) => Object.values(row).some(isDeadly)))
      process.kill(process.pid, 'SIGKILL')
    return rows
  }
  Reflect.set(StatementSync.prototype, 'all', readAll)
}
