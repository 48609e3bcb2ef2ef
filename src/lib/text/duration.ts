// Parses durations as operators write them: 24h, 72h30m, 1.5h, 500ms, 0. The value is in milliseconds.
import { refuse } from '../refusal.ts'

const UNITS = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const
type Unit = keyof typeof UNITS

const WHOLE = /^(?:\d+(?:\.\d+)?(?:h|ms|m|s))+$/
const PART = /(\d+(?:\.\d+)?)(h|ms|m|s)/gy

/** A hundred years. Longer ones are typos, and added to the present soon leave four-digit years. */
export const MAX_DURATION_MS = 100 * 365.25 * 24 * UNITS.h

/** The message for every invalid duration. Never quotes the text, as settings use it for secret values too. */
export const DURATION_SENTENCE = 'must be a duration such as 24h, 72h30m, 1.5h, 500ms or 0, at most 100 years'

/** Whole milliseconds. */
export function parseDuration(text: string): number {
  return readDuration(text) ?? refuse('invalid', `${JSON.stringify(text.slice(0, 40))} ${DURATION_SENTENCE}`)
}

/** Milliseconds; undefined if the text is not a duration. */
export function readDuration(text: string): number | undefined {
  if (text === '0') return 0
  if (text.length > 64 || !WHOLE.test(text)) return undefined
  let exact = 0
  for (const [, amount, unit] of text.matchAll(PART))
    exact += Number(amount) * (isUnit(unit) ? UNITS[unit] : Number.NaN)
  const ms = Math.round(exact)
  // 0 often means "never", so a tiny amount must not round down to it.
  if (ms === 0 && exact > 0) return undefined
  return ms <= MAX_DURATION_MS ? ms : undefined
}

/** The shortest text that `parseDuration` reads back as the same value. */
export function formatDuration(ms: number): string {
  let rest = Math.round(ms)
  let text = ''
  for (const [unit, size] of Object.entries(UNITS)) {
    const count = Math.floor(rest / size)
    if (count > 0) text += `${count}${unit}`
    rest -= count * size
  }
  return text || '0'
}

function isUnit(text: string | undefined): text is Unit {
  return text !== undefined && Object.hasOwn(UNITS, text)
}
