// Slack's markup as readable text, and text for Slack that notifies no channel by accident.

/** Names by id, as far as they are known. */
export interface SlackNames {
  readonly users: ReadonlyMap<string, string>
  readonly channels: ReadonlyMap<string, string>
}

/** No part of the markup is longer, and a "<" without an end is read only as far. */
const MARKUP = /<([^<>\n]{1,4000})>/g

/** People and channels that a text names without their names. */
export function findMentions(text: string): { readonly users: string[]; readonly channels: string[] } {
  const found = { users: new Set<string>(), channels: new Set<string>() }
  for (const [, inner = ''] of text.matchAll(MARKUP)) {
    const [target = '', label] = splitLabel(inner)
    if (/^@[UW][A-Z0-9]{1,30}$/.test(target)) found.users.add(target.slice(1))
    else if (/^#[CG][A-Z0-9]{1,30}$/.test(target) && label === undefined) found.channels.add(target.slice(1))
  }
  return { users: [...found.users], channels: [...found.channels] }
}

export function readSlackText(text: string, names: SlackNames): string {
  return unescapeText(text.replace(MARKUP, (_, inner: string) => readMarkup(inner, names)))
}

function readMarkup(inner: string, { users, channels }: SlackNames): string {
  const [target = '', label] = splitLabel(inner)
  const rest = target.slice(1)
  if (target.startsWith('@')) return `@${users.get(rest) ?? label ?? rest}`
  if (target.startsWith('#')) return `#${label ?? channels.get(rest) ?? rest}`
  if (target.startsWith('!')) return readSpecial(rest, label)
  const shown = target.startsWith('mailto:') ? target.slice('mailto:'.length) : target
  return label === undefined || label === shown || label === target ? shown : `[${label}](${target})`
}

/** `<!here>`, `<!subteam^S1|@team>`, `<!date^1392734382^{date}|Feb 18>`. */
function readSpecial(rest: string, label: string | undefined): string {
  const [name = ''] = rest.split('^', 1)
  if (label === undefined) return `@${name}`
  return name === 'subteam' && !label.startsWith('@') ? `@${label}` : label
}

function splitLabel(inner: string): [target: string, label?: string] {
  const at = inner.indexOf('|')
  return at < 0 ? [inner] : [inner.slice(0, at), inner.slice(at + 1)]
}

function unescapeText(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}

/** Text without a format. */
export function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** Notifying all members of a chat is for people: a blank without width keeps the word and takes its effect. */
export function withoutBroadcasts(text: string): string {
  return text.replace(/<!(?=channel|here|everyone|subteam\^)/g, '<\u200b!')
}

/** Lines of a quotation in Markdown, at most as long. */
export function quoteText(text: string, max: number): string {
  const quoted = `> ${text.slice(0, max).replaceAll('\n', '\n> ')}`
  return text.length > max || quoted.length > max ? `${quoted.slice(0, max - 1)}…` : quoted
}
