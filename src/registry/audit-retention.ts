// Removes old rows of the audit log, in small steps.
import { type RetentionProgress, takeOld } from '../core/messages/retention.ts'
import { timestamp } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { execute, integer, placeholders, query, text } from '../store/statement.ts'

/** Removes the oldest rows, in the order of their ids, up to the first that is too new. */
export async function removeAudit(
  tx: Tx,
  { before, after, limit }: { readonly before: number; readonly after: number; readonly limit: number },
): Promise<RetentionProgress<number>> {
  const oldest = 'select id, created_at from audit where id > $1 order by id limit $2'
  const rows = await query(tx, { id: integer, created_at: text }, oldest, [after, limit])
  const { old, next } = takeOld(rows, ({ created_at }) => created_at < timestamp(before), limit)
  const ids = old.map(({ id }) => id)
  if (ids.length > 0) await execute(tx, `delete from audit where id in (${placeholders(ids.length)})`, ids)
  return { removed: ids.length, ...(next ? { next: next.id } : {}) }
}
