// Which scheduled tasks a turn may see and touch, within what its folder may.
import { hasReach } from '../core/access/reach.ts'
import type { ScheduledTask } from '../core/schedule/tasks.ts'
import { refuse } from '../lib/refusal.ts'
import type { Context } from '../registry/context.ts'

/** At reach `chat`, the tasks that speak in this chat and were made at this reach. */
export async function visibleTaskFilter(ctx: Context): Promise<(task: ScheduledTask) => boolean> {
  if (ctx.reach !== 'chat') return () => true
  const jid = (await ctx.turn())?.jid
  return ({ chat_jid, reach }) => reach === 'chat' && chat_jid === jid
}

/** To change a task takes at least the reach that its own turns have: a paused one that is resumed must not give more. */
export async function mustReachTask(ctx: Context, task: ScheduledTask): Promise<void> {
  const isInSight = await visibleTaskFilter(ctx)
  if (isInSight(task) && hasReach(ctx.reach, task.reach ?? 'all')) return
  refuse('forbidden', `${ctx.tool}: not permitted on task ${task.id}`)
}
