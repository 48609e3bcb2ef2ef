// Lists and follows the audit log.
import type { z } from 'zod'
import type { PrintedTable } from '../../lib/command-line/print.ts'
import type { Audit } from '../../registry/audit.ts'
import { auditResource } from '../../resources/audit.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { growingTablePrinter } from '../output/growing-table.ts'
import { followStore } from '../output/store-follower.ts'

type AuditRow = z.output<typeof Audit>

const DEFAULT_LIMIT = '50'
const LIMIT_MAX = 10_000
/** The largest page of the verb. */
const PAGE_SIZE = 200

export const auditCommands = [
  defineSvcCommand({
    usage: 'audit <instance> [--limit|-n <n>] [--folder|-d <folder>] [--follow|-f] [--json]',
    about:
      'list changes and refused calls, newest last; --folder selects those of agents and people of a folder and below; --follow continues until Ctrl-C',
    example: 'audit demo --limit 20',
    run: async (svc, { limit = DEFAULT_LIMIT, folder, follow }) => {
      const count = Math.min(Math.max(parseInteger('--limit', limit), 1), LIMIT_MAX)
      if (follow) return followStore(svc, () => startFollowing(svc, count, folder))
      svc.print.table(makeAuditTable(await readNewest(svc, folder, { count })))
    },
  }),
]

interface NewestOptions {
  readonly count?: number
  /** Stops at the page that contains this or an earlier row. */
  readonly untilId?: number
}

/** Reads pages from the newest one backwards; returns the rows oldest first. */
async function readNewest(
  svc: SvcContext,
  folder: string | undefined,
  { count = Number.MAX_SAFE_INTEGER, untilId = 0 }: NewestOptions,
): Promise<AuditRow[]> {
  const rows: AuditRow[] = []
  let after: string | undefined
  do {
    const limit = Math.min(PAGE_SIZE, count - rows.length)
    const page = await svc.call(auditResource.verbs.list, {
      limit,
      ...(folder === undefined ? {} : { folder }),
      ...(after ? { after } : {}),
    })
    rows.push(...page.audit)
    after = page.next
  } while (after !== undefined && rows.length < count && !rows.some(({ id }) => id <= untilId))
  return rows.toReversed()
}

/** Prints the newest rows and returns a function that prints later ones. */
async function startFollowing(
  svc: SvcContext,
  count: number,
  folder: string | undefined,
): Promise<() => Promise<void>> {
  let lastId = 0
  const print = growingTablePrinter(svc.print, makeAuditTable)
  const show = (rows: readonly AuditRow[]): void => {
    lastId = Math.max(lastId, ...rows.map(({ id }) => id))
    print(rows)
  }
  show(await readNewest(svc, folder, { count }))
  return async () => {
    const rows = await readNewest(svc, folder, { untilId: lastId })
    show(rows.filter(({ id }) => id > lastId))
  }
}

function makeAuditTable(rows: readonly AuditRow[]): PrintedTable<AuditRow> {
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
      DETAIL: ({ error_msg, params_summary, count }) =>
        `${error_msg ?? params_summary}${count === undefined ? '' : ` (${count} times)`}`,
    },
    empty: 'no audit entries',
  }
}
