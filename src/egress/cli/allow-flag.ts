// Parses the host list of `--allow`.
import type { Printer } from '../../lib/command-line/print.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { breadthWarning } from '../../lib/http/public-suffix.ts'
import { parseAllowlistEntry } from '../policy/allowlist-entry.ts'

/** Canonical names without duplicates; an empty list allows nothing. Refuses entries that could never match. */
export function readAllowFlag(text: string, print: Pick<Printer, 'warn'>): string[] {
  const typed = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const entries = typed.map(parseAllowlistEntry)
  const faults = entries.flatMap((entry) => ('fault' in entry ? [entry.fault] : []))
  if (faults.length > 0) throwUsageError(`--allow: ${[...new Set(faults)].join(' ')}`)
  const hosts = [...new Set(entries.flatMap((entry) => ('host' in entry ? [entry.host] : [])))]
  for (const warning of hosts.flatMap((host) => breadthWarning(host) ?? [])) print.warn(`--allow: ${warning}`)
  return hosts
}
