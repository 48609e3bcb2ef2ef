// A scheduler in its own process: `node schedule-child.ts <mode> <address> <began>`, with the address as JSON. It runs until
// it is killed. Mode `careless` is deliberately wrong: it reads due tasks and claims them in a later transaction.
import { setTimeout as pause } from 'node:timers/promises'
import { recordInbound } from '../../src/core/messages/inbound.ts'
import { dueTasks, nextTaskState } from '../../src/core/schedule/task-firing.ts'
import { scheduledTasks } from '../../src/core/schedule/tasks.ts'
import { openHost } from '../../src/daemons/process/host.ts'
import { Scheduler } from '../../src/daemons/timed/scheduler.ts'
import type { Clock } from '../../src/lib/clock.ts'
import { openLog } from '../../src/lib/log/log.ts'
import { Refusal } from '../../src/lib/refusal.ts'

const HOUR_MS = 3_600_000
/** Offsets of the clock in hours, for three seconds each. */
const STEPS = [0, 1, 0, -1]
const STEP_MS = 3000

const [mode = '', address = '', began = ''] = process.argv.slice(2)
const jumping: Clock = {
  now: () => {
    const real = Date.now()
    return real + HOUR_MS * (STEPS[Math.floor((real - Number(began)) / STEP_MS) % STEPS.length] ?? 0)
  },
}
const host = await openHost({
  instance: 'test',
  store: JSON.parse(address),
  webBase: 'http://localhost',
  ...(mode === 'jumping' ? { clock: jumping } : {}),
})
process.stdout.write('ready\n')
if (mode === 'careless') await fireCarelessly()
else new Scheduler({ host, log: await openLog() })
// The scheduler's timers do not keep the process alive.
process.stdin.resume()

async function fireCarelessly(): Promise<never> {
  const { engine, clock, random } = host
  const context = { dialect: engine.dialect, clock, random }
  for (;;) {
    const due = await engine.read((tx) => dueTasks(tx, clock.now(), 100))
    for (const task of due) {
      const next = nextTaskState(task, clock.now(), 'UTC')
      if (next instanceof Refusal) throw next
      await engine.transaction(async (tx) => {
        await recordInbound(tx, context, {
          jid: task.chat_jid,
          sender: 'timed',
          content: task.next_run ?? '',
          reach: 'all',
        })
        await scheduledTasks.update(tx, { id: task.id }, next)
      })
    }
    await pause(10)
  }
}
