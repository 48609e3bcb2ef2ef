// Ages of times, on the server and in the browser.
const AGE_UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
] as const

/** `now`, `5m`, `2h` or `3d`, and `in 5m` for a time to come. */
export function relativeTime(at: string, nowMs: number): string {
  const ms = nowMs - Date.parse(at)
  const [unit, size] = AGE_UNITS.find(([, unitMs]) => Math.abs(ms) >= unitMs) ?? []
  if (unit === undefined || size === undefined) return 'now'
  const text = `${Math.floor(Math.abs(ms) / size)}${unit}`
  return ms < 0 ? `in ${text}` : text
}
