// The audit log: who changed what, and who was refused.
import type { z } from 'zod'
import type { PrintedTable } from '../../lib/command-line/print.ts'
import type { Audit } from '../../registry/audit.ts'
import { auditResource } from '../../resources/audit.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { followStore } from '../output/store-follower.ts'

type Row = z.output<typeof Audit>

const SHOWN = '50'
const SHOWN_MAX = 10_000
/** The most that the verb gives at once. */
const PAGE = 200

export const auditCommands = [
  defineSvcCommand({
    usage: 'audit <instance> [--limit|-n <n>] [--folder|-d <folder>] [--follow|-f] [--json]',
    about:
      'show who changed what and who was refused, newest last; --folder shows what agents and people of a folder and below did; --follow goes on until Ctrl-C',
    example: 'audit demo --limit 20',
    run: async (svc, { limit = SHOWN, folder, follow }) => {
      const count = Math.min(Math.max(parseInteger('--limit', limit), 1), SHOWN_MAX)
      if (follow) return followStore(svc, () => startFollowing(svc, count, folder))
      svc.print.table(makeAuditTable(await readNewest(svc, folder, (rows) => rows.length >= count, count)))
    },
  }),
]

/** Oldest first. Reads page by page from the newest one until there is enough. */
async function readNewest(
  svc: SvcContext,
  folder: string | undefined,
  isEnough: (rows: readonly Row[]) => boolean,
  most: number,
): Promise<Row[]> {
  const rows: Row[] = []
  let after: string | undefined
  do {
    const limit = Math.min(PAGE, most - rows.length)
    const page = await svc.call(auditResource.verbs.list, {
      limit,
      ...(folder === undefined ? {} : { folder }),
      ...(after ? { after } : {}),
    })
    rows.push(...page.audit)
    after = page.next
  } while (after !== undefined && rows.length < most && !isEnough(rows))
  return rows.toReversed()
}

/** Shows the newest; what it answers with shows those that were written since. */
async function startFollowing(
  svc: SvcContext,
  count: number,
  folder: string | undefined,
): Promise<() => Promise<void>> {
  let last = 0
  let hasHeader = false
  const show = (rows: readonly Row[]): void => {
    last = Math.max(last, ...rows.map(({ id }) => id))
    if (svc.print.json) for (const row of rows) svc.print.line(JSON.stringify(row))
    else if (rows.length > 0) svc.print.table({ ...makeAuditTable(rows), ...(hasHeader ? { header: false } : {}) })
    hasHeader ||= rows.length > 0
  }
  show(await readNewest(svc, folder, (rows) => rows.length >= count, count))
  return async () => {
    const rows = await readNewest(svc, folder, (found) => found.some(({ id }) => id <= last), Number.MAX_SAFE_INTEGER)
    show(rows.filter(({ id }) => id > last))
  }
}

function makeAuditTable(rows: readonly Row[]): PrintedTable<Row> {
  return {
    rows,
    columns: {
      TIME: ({ created_at }) => created_at,
      OUTCOME: ({ outcome }) => outcome,
      ACTOR: ({ actor }) => actor,
      BY: ({ surface }) => surface,
      ACTION: ({ action }) => action,
      KEY: ({ key }) => key || '-',
      FOLDER: ({ folder = '-' }) => folder,
      DETAIL: ({ error_msg, params_summary }) => error_msg ?? params_summary,
    },
    empty: 'nothing was changed or refused',
  }
}
