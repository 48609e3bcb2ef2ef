// Ids of Discord, which contain their time.

const EPOCH_MS = 1_420_070_400_000n
const PATTERN = /^\d{15,20}$/

export function isSnowflake(value: unknown): value is string {
  return typeof value === 'string' && PATTERN.test(value)
}

/** Milliseconds since 1970. */
export function timeOfSnowflake(id: string): number {
  return Number((BigInt(id) >> 22n) + EPOCH_MS)
}

/** The lowest id of that time. */
export function snowflakeAt(ms: number): string {
  const since = BigInt(Math.trunc(ms)) - EPOCH_MS
  return String((since > 0n ? since : 0n) << 22n).padStart(15, '0')
}

export function isLater(id: string, than: string): boolean {
  return BigInt(id) > BigInt(than)
}
