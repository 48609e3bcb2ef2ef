// The list of hosts behind `--allow`, as a person types it.
import type { Printer } from '../lib/print.ts'
import { misuse } from '../lib/program.ts'
import { breadthWarning } from '../lib/public-suffix.ts'
import { parseEntry } from './entry.ts'

/** Canonical names without repeats; what an empty list allows is nothing. Whatever could never match is refused. */
export function readAllowFlag(text: string, print: Pick<Printer, 'warn'>): string[] {
  const typed = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const entries = typed.map(parseEntry)
  const faults = entries.flatMap((entry) => ('fault' in entry ? [entry.fault] : []))
  if (faults.length > 0) misuse(`--allow: ${[...new Set(faults)].join(' ')}`)
  const hosts = [...new Set(entries.flatMap((entry) => ('host' in entry ? [entry.host] : [])))]
  for (const warning of hosts.flatMap((host) => breadthWarning(host) ?? [])) print.warn(`--allow: ${warning}`)
  return hosts
}
