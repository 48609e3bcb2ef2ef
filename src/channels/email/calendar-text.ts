// An invitation (RFC 5545) as lines for agents.

const SHOWN: Readonly<Record<string, string>> = {
  SUMMARY: 'what',
  DTSTART: 'start',
  DTEND: 'end',
  LOCATION: 'where',
  ORGANIZER: 'organizer',
  STATUS: 'status',
}
const EVENTS_MAX = 5
const VALUE_MAX = 300

export function calendarText(calendar: string): string {
  const lines = calendar
    .slice(0, 100_000)
    .replaceAll('\r\n', '\n')
    .replace(/\n[ \t]/g, '')
    .split('\n')
  const method = lines.find((line) => line.startsWith('METHOD:'))?.slice(7, 27)
  const shown: string[] = []
  let events = 0
  let isInEvent = false
  for (const line of lines) {
    if (line === 'BEGIN:VEVENT') isInEvent = ++events <= EVENTS_MAX
    else if (line === 'END:VEVENT') isInEvent = false
    else if (isInEvent) shown.push(...shownLine(line))
  }
  return shown.length === 0
    ? ''
    : [`[calendar${method === undefined ? '' : ` ${method.toLowerCase()}`}]`, ...shown].join('\n')
}

function shownLine(line: string): string[] {
  const colon = line.indexOf(':')
  if (colon < 0) return []
  const [name = '', ...parameters] = line.slice(0, colon).split(';')
  const label = Object.hasOwn(SHOWN, name) ? SHOWN[name] : undefined
  if (label === undefined) return []
  const zone = parameters.find((each) => each.startsWith('TZID='))?.slice(5, 65)
  const value = line
    .slice(colon + 1, colon + 1 + VALUE_MAX)
    .replace(/^mailto:/i, '')
    .replace(/\\[nN]/g, ' ')
    .replace(/\\(.)/g, '$1')
  return [`${label}: ${readableTime(value)}${zone === undefined ? '' : ` (${zone})`}`]
}

function readableTime(value: string): string {
  return value.replace(/^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?$/, (_, year, month, day, hour, minute, utc) =>
    hour === undefined ? `${year}-${month}-${day}` : `${year}-${month}-${day} ${hour}:${minute}${utc ? ' UTC' : ''}`,
  )
}
