// Times in the ids of messages, which are UUIDv7 of their arrival.

/** The smallest UUIDv7 of this time, in milliseconds since 1970. */
export function firstIdAt(ms: number): string {
  const digits = Math.max(0, ms).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}`
}
