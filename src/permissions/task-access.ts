// Which scheduled tasks a turn may see and change, in addition to the access of its folder.
import { hasReach } from '../core/access/reach.ts'
import type { ScheduledTask } from '../core/schedule/tasks.ts'
import { refuse } from '../lib/refusal.ts'
import type { Context } from '../registry/context.ts'

/** A turn of reach `chat` sees the tasks of its own chat that were created at the same reach. */
export async function visibleTaskFilter(ctx: Context): Promise<(task: ScheduledTask) => boolean> {
  if (ctx.reach !== 'chat') return () => true
  const jid = (await ctx.turn())?.jid
  return ({ chat_jid, reach }) => reach === 'chat' && chat_jid === jid
}

/** Changing a task needs at least the reach of the task's own turns, so that resuming it gives no further reach. */
export async function mustReachTask(ctx: Context, task: ScheduledTask): Promise<void> {
  const isVisible = await visibleTaskFilter(ctx)
  if (isVisible(task) && hasReach(ctx.reach, task.reach ?? 'all')) return
  refuse('forbidden', `${ctx.tool}: not permitted on task ${task.id}`)
}
