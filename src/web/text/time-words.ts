// Times on pages for people.

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const

const MONTH_MS = 30 * 86_400_000

/** `5 minutes ago`; the date for times more than 30 days ago. */
export function timeAgo(at: string, nowMs: number): string {
  const age = nowMs - Date.parse(at)
  if (age >= MONTH_MS) return `on ${at.slice(0, 10)}`
  const [unit, size] = UNITS.find(([, ms]) => age >= ms) ?? []
  if (unit === undefined || size === undefined) return 'just now'
  const count = Math.floor(age / size)
  return `${count} ${unit}${count === 1 ? '' : 's'} ago`
}
