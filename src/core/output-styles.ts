// The default output style of each surface (decision T12).

const STYLES: Readonly<Record<string, string>> = {
  web: 'Markdown, as on a web page: short paragraphs, lists and code blocks are shown as such.',
  hook: 'A program sent this, and no person reads replies in this chat: use the tool send to tell people in a chat of theirs. Answer here in one plain line, or not at all.',
  telegram: 'Short messages in plain text; *bold* and `code` at most, no headings, no tables.',
  whatsapp: 'Short messages in plain text; *bold* and _italic_ at most, no headings, no tables, no links in brackets.',
  discord: 'Discord Markdown, at most 2000 characters; no tables.',
  slack: 'Slack mrkdwn: *bold*, _italic_, `code`, <url|text>; no headings, no tables.',
  email: 'A letter: greeting, whole sentences, plain text.',
}
const STYLE = 'Short messages in plain text, without markup.'

/** How answers look there, where nothing else was asked for. */
export function styleOf(surface: string): string {
  const [platform = ''] = surface.split('-')
  return Object.hasOwn(STYLES, platform) ? (STYLES[platform] ?? STYLE) : STYLE
}
