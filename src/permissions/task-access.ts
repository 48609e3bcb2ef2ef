// Which scheduled tasks a turn may see and change, in addition to the access of its folder.
import { hasReach } from '../core/access/reach.ts'
import type { ScheduledTask } from '../core/schedule/tasks.ts'
import { refuse } from '../lib/refusal.ts'
import { HiddenRowRefusal } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { otherVisitors } from './chat-access.ts'

/** A turn of reach `chat` sees the tasks of its own chat that were created at the same reach; others, none of other visitors. */
export async function visibleTaskFilter(ctx: Context): Promise<(task: ScheduledTask) => boolean> {
  if (ctx.reach !== 'chat') {
    const isOther = await otherVisitors(ctx)
    return ({ chat_jid }) => !isOther(chat_jid)
  }
  const jid = (await ctx.turn())?.jid
  return ({ chat_jid, reach }) => reach === 'chat' && chat_jid === jid
}

/** Changing a task needs at least the reach of the task's own turns, so that resuming it gives no further reach. */
export async function mustReachTask(ctx: Context, task: ScheduledTask): Promise<void> {
  await mustSeeTask(ctx, task)
  if (!hasReach(ctx.reach, task.reach ?? 'all')) refuse('forbidden', denialText(ctx, task))
}

/** A task that the turn cannot list is answered like one that does not exist. */
export async function mustSeeTask(ctx: Context, task: ScheduledTask): Promise<void> {
  if (!(await visibleTaskFilter(ctx))(task))
    throw new HiddenRowRefusal(`there is no task ${task.id}`, denialText(ctx, task))
}

function denialText({ tool }: Context, { id }: ScheduledTask): string {
  return `${tool}: not permitted on task ${id}`
}
