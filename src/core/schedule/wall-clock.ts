// Converts between instants and the local wall time of a time zone.

const DAY_MS = 24 * 3_600_000

interface WallClock {
  /** The wall time as the number that Date.UTC gives for its fields. */
  wallTimeAt(instant: number): number
  /** The first instant with this wall time. For a skipped wall time: the end of the gap. */
  firstInstantOf(time: number): number
}

const clocks = new Map<string, WallClock>()

/** One per time zone, because a formatter takes long to create. */
export function wallClock(timeZone: string): WallClock {
  const clock = clocks.get(timeZone) ?? createWallClock(timeZone)
  clocks.set(timeZone, clock)
  return clock
}

function createWallClock(timeZone: string): WallClock {
  if (timeZone === 'UTC') return { wallTimeAt: (instant) => instant, firstInstantOf: (time) => time }
  const format = new Intl.DateTimeFormat('en', {
    timeZone,
    calendar: 'iso8601',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  const wallTimeAt = (instant: number): number => {
    const parts = new Map(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]))
    const [year = 0, month = 1, day, hour, minute, second] = FIELDS.map((type) => parts.get(type))
    const millisecond = ((instant % 1000) + 1000) % 1000
    return new Date(0).setUTCFullYear(year, month - 1, day) + Date.UTC(1970, 0, 1, hour, minute, second, millisecond)
  }
  const offsetAt = (instant: number): number => wallTimeAt(instant) - instant
  const firstInstantOf = (time: number): number => {
    // Offsets are shorter than a day, and no zone changes its offset twice in two days.
    const [before, after] = [offsetAt(time - DAY_MS), offsetAt(time + DAY_MS)]
    const instants = [time - before, time - after].filter((instant) => wallTimeAt(instant) === time)
    return instants.length > 0 ? Math.min(...instants) : findOffsetChange(time - after, time - before)
  }
  /** The first instant whose offset differs from that at `early`. */
  const findOffsetChange = (early: number, late: number): number => {
    const before = offsetAt(early)
    while (late - early > 1) {
      const middle = Math.floor((early + late) / 2)
      if (offsetAt(middle) === before) early = middle
      else late = middle
    }
    return late
  }
  return { wallTimeAt, firstInstantOf }
}

const FIELDS = ['year', 'month', 'day', 'hour', 'minute', 'second'] as const
