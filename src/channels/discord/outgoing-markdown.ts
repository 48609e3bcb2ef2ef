// Discord shows most of Markdown, but no tables, no images and no headings below the third level.

const FENCE = /^ {0,3}(`{3,}|~{3,})/
const IMAGE = /!\[([^[\]\n]{0,300})\]\((https?:\/\/[^\s()]{1,1000})\)/g
const DEEP_HEADING = /^#{4,6} (.*)$/s
/** Wider cells are not aligned, so that one does not fill the message with blanks. */
const ALIGNED_MAX = 40

/** Tables become code blocks, whose columns are aligned. */
export function toDiscordMarkdown(text: string): string {
  const lines = text.split('\n')
  const shown: string[] = []
  let fence: string | undefined
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? ''
    const table = fence === undefined ? tableAt(lines, at) : []
    if (table.length > 0) {
      shown.push(alignedTable(table).join('\n'))
      at += table.length
      continue
    }
    const mark = FENCE.exec(line)?.[1]
    shown.push(fence === undefined && mark === undefined ? shownLine(line) : line)
    if (fence === undefined) fence = mark
    else if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined
    at++
  }
  return shown.join('\n')
}

function shownLine(line: string): string {
  const heading = DEEP_HEADING.exec(line)?.[1]?.trim()
  const shown = heading ? `**${heading.replaceAll('**', '')}**` : line
  return shown.includes('![')
    ? shown.replace(IMAGE, (_, label: string, url: string) => `[${label || 'image'}](${url})`)
    : shown
}

/** The lines of the table that starts there. */
function tableAt(lines: readonly string[], at: number): readonly string[] {
  const [head = '', rule = ''] = [lines[at], lines[at + 1]]
  if (!head.includes('|') || !isRule(rule) || cellsOf(rule).length !== cellsOf(head).length) return []
  let end = at + 2
  while (lines[end]?.includes('|')) end++
  return lines.slice(at, end)
}

function isRule(line: string): boolean {
  return line.includes('-') && line.includes('|') && cellsOf(line).every((cell) => /^:?-+:?$/.test(cell))
}

function cellsOf(line: string): string[] {
  const cells = line.split('|').map((cell) => cell.trim())
  if (cells.length > 1 && cells[0] === '') cells.shift()
  if (cells.length > 1 && cells.at(-1) === '') cells.pop()
  return cells
}

function alignedTable([head = '', , ...rows]: readonly string[]): string[] {
  const cells = [head, ...rows].map((row) => cellsOf(row).map((cell) => cell.replaceAll('**', '').replaceAll('`', '')))
  const widths = (cells[0] ?? []).map((_, column) =>
    cells.reduce((width, row) => Math.min(ALIGNED_MAX, Math.max(width, row[column]?.length ?? 0)), 0),
  )
  const lines = cells.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  const rule = widths.map((width) => '-'.repeat(width)).join('  ')
  return ['```', lines[0] ?? '', rule, ...lines.slice(1), '```']
}
