// `state`: shows the sources registered with a running proxy, and the hosts that it denied.
import { z } from 'zod'
import type { PrintedTable } from '../../lib/command-line/print.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { refuse } from '../../lib/refusal.ts'
import { fetchAdmin, readAdminUrl } from '../admin/client.ts'
import { defineEgressCommand, type EgressCommandContext } from '../cli/command.ts'

const Entries = z.array(z.object({ ip: z.string(), id: z.string(), allowlist: z.array(z.string()) }))
type Entries = z.output<typeof Entries>

const Denials = z.array(
  z.object({
    ip: z.string(),
    id: z.string().nullish(),
    host: z.string(),
    port: z.number().nullish(),
    sni: z.string().nullish(),
    reason: z.string(),
    count: z.number(),
    first_at: z.string(),
    last_at: z.string(),
  }),
)
type Denials = z.output<typeof Denials>

export const stateCommands = [
  defineEgressCommand({
    usage: 'state [--admin <url>] [--denied] [--json]',
    about:
      'list sources with their allowlists, or with --denied the denied hosts, newest first; <url> is the admin listener',
    example: 'state --admin http://localhost:3129 --denied',
    run: async (context, { admin, denied }) => {
      const url = adminUrl(context, admin)
      if (denied) context.print.table(denialTable(await fetchAdmin(url, 'v1/denied', Denials)))
      else context.print.table(entryTable(context, await fetchAdmin(url, 'v1/state', Entries)))
    },
  }),
]

const DEFAULT_ADMIN = 'http://localhost:3129'

function adminUrl({ io }: EgressCommandContext, flag: string | undefined): URL {
  const text = flag ?? (io.environment.get('EGRESS_ADMIN') || DEFAULT_ADMIN)
  const name = flag === undefined ? 'EGRESS_ADMIN' : '--admin'
  const fault = `${name} must be a URL such as ${DEFAULT_ADMIN}`
  return readAdminUrl(text) ?? (flag === undefined ? refuse('invalid', fault) : throwUsageError(fault))
}

const LIST_MIN_COLUMNS = 24

function entryTable({ io }: EgressCommandContext, rows: Entries): PrintedTable<Entries[number]> {
  const { isTerminal, width = 120 } = io.stdout
  const longest = (texts: readonly string[]): number => Math.max(4, ...texts.map((text) => text.length))
  const others = longest(rows.map(({ ip }) => ip)) + longest(rows.map(({ id }) => id)) + 4
  const room = Math.max(LIST_MIN_COLUMNS, width - others)
  return {
    rows,
    columns: {
      IP: ({ ip }) => ip,
      ID: ({ id }) => id,
      ALLOWLIST: ({ allowlist }) => (isTerminal ? fitted(allowlist, room) : allowlist.join(',')),
    },
    empty: 'no source is registered, so everything is denied',
  }
}

/** As many names as fit, and the number of the others. */
export function fitted(names: readonly string[], columns: number): string {
  if (names.length === 0) return '(nothing)'
  const all = names.join(', ')
  if (all.length <= columns || names.length === 1) return all
  const more = (count: number): string => `… and ${names.length - count} more`
  let shown = names.length - 1
  const text = (): string => [...names.slice(0, shown), more(shown)].join(', ')
  while (shown > 1 && text().length > columns) shown--
  return text()
}

function denialTable(rows: Denials): PrintedTable<Denials[number]> {
  return {
    rows,
    columns: {
      LAST: ({ last_at }) => last_at,
      IP: ({ ip }) => ip,
      ID: ({ id }) => id ?? '-',
      HOST: ({ host }) => host,
      PORT: ({ port }) => port ?? '-',
      SNI: ({ sni }) => sni ?? '-',
      COUNT: ({ count }) => count,
      REASON: ({ reason }) => reason,
    },
    empty: 'nothing was denied since the proxy started',
  }
}
