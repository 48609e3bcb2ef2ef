// Filters an agent's prose before it reaches the chat: removes thoughts, status lines and filler such as "No response
// needed".

interface FilteredOutput {
  /** Empty if nothing is to be sent. */
  readonly text: string
  /** Contents of the status blocks, in order. */
  readonly statuses: readonly string[]
}

/** The length of attributes is limited so that matching takes linear time. */
const TAG = /<(\/?)(internal|think|thinking|status)(?:\s[^<>]{0,200})?>/gi
const FILLER =
  /^(?:no (?:response|reply|answer|action|further action) (?:is )?(?:requested|needed|required|necessary)|(?:i have )?nothing (?:further |more |else )?to (?:add|say|report)|acknowledged)$/

/** Blocks may be nested. An unclosed block extends to the end of the text; an unclosed status, to the end of its line. */
export function filterOutput(text: string): FilteredOutput {
  const tags = [...text.matchAll(TAG)]
  if (tags.length === 0) return { text: withoutFiller(text), statuses: [] }
  const lastStatusEnd =
    tags.findLast(([, slash, name]) => slash === '/' && name?.toLowerCase() === 'status')?.index ?? -1
  const statuses: string[] = []
  const open: string[] = []
  /** The number of open blocks of each name, so that the list is searched only for blocks that it contains. */
  const counts = new Map<string, number>()
  let [prose, status, at] = ['', '', 0]
  const take = (until: number): void => {
    const between = text.slice(at, until)
    if (open.length === 0) prose += between
    else if (open.length === 1 && open[0] === 'status') status += between
  }
  for (const tag of tags) {
    const [whole, slash, word = ''] = tag
    if (tag.index < at) continue
    const name = word.toLowerCase()
    take(tag.index)
    at = tag.index + whole.length
    if (slash === '/') {
      const from = (counts.get(name) ?? 0) > 0 ? open.lastIndexOf(name) : -1
      if (from === 0 && name === 'status') {
        statuses.push(status)
        status = ''
      }
      if (from >= 0) for (const closed of open.splice(from)) counts.set(closed, (counts.get(closed) ?? 1) - 1)
    } else if (name !== 'status' || (open.length === 0 && tag.index < lastStatusEnd)) {
      open.push(name)
      counts.set(name, (counts.get(name) ?? 0) + 1)
    } else if (open.length === 0) {
      const newline = text.indexOf('\n', at)
      const end = newline < 0 ? text.length : newline
      statuses.push(text.slice(at, end).replace(TAG, ''))
      at = end
    }
  }
  take(text.length)
  return {
    text: withoutFiller(prose.trim()),
    statuses: statuses.map((each) => each.trim()).filter((each) => each !== ''),
  }
}

function withoutFiller(text: string): string {
  const words = text
    .toLowerCase()
    .replace(/[^\p{L}\s]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  // A text without letters may still be an emoji or a number.
  return text.trim() === '' || FILLER.test(words) ? '' : text
}
