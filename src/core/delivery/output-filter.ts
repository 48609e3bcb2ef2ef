// What of an agent's prose reaches the chat: not what it wrote for itself, not how far it is, and not the filler that only
// says that there is nothing to say.

export interface Filtered {
  /** Empty where nothing is left to say. */
  readonly text: string
  /** What stood in status blocks, in order. */
  readonly statuses: readonly string[]
}

/** The attributes of a tag are bounded, so that no text is scanned again and again. */
const TAG = /<(\/?)(internal|think|thinking|status)(?:\s[^<>]{0,200})?>/gi
const FILLER =
  /^(?:no (?:response|reply|answer|action|further action) (?:is )?(?:requested|needed|required|necessary)|(?:i have )?nothing (?:further |more |else )?to (?:add|say|report)|acknowledged)$/

/** Blocks may be nested. What is never closed swallows the rest; of a status, the rest of its line. */
export function filterOutput(text: string): Filtered {
  const tags = [...text.matchAll(TAG)]
  if (tags.length === 0) return { text: withoutFiller(text), statuses: [] }
  const lastStatusEnd =
    tags.findLast(([, slash, name]) => slash === '/' && name?.toLowerCase() === 'status')?.index ?? -1
  const statuses: string[] = []
  const open: string[] = []
  let [said, status, at] = ['', '', 0]
  const take = (until: number): void => {
    const between = text.slice(at, until)
    if (open.length === 0) said += between
    else if (open.length === 1 && open[0] === 'status') status += between
  }
  for (const tag of tags) {
    const [whole, slash, word = ''] = tag
    if (tag.index < at) continue
    const name = word.toLowerCase()
    take(tag.index)
    at = tag.index + whole.length
    if (slash === '/') {
      const from = open.lastIndexOf(name)
      if (from === 0 && name === 'status') {
        statuses.push(status)
        status = ''
      }
      if (from >= 0) open.length = from
    } else if (name !== 'status') open.push(name)
    else if (open.length === 0 && tag.index < lastStatusEnd) open.push(name)
    else if (open.length === 0) {
      const newline = text.indexOf('\n', at)
      const end = newline < 0 ? text.length : newline
      statuses.push(text.slice(at, end).replace(TAG, ''))
      at = end
    }
  }
  take(text.length)
  return {
    text: withoutFiller(said.trim()),
    statuses: statuses.map((each) => each.trim()).filter((each) => each !== ''),
  }
}

function withoutFiller(text: string): string {
  const words = text
    .toLowerCase()
    .replace(/[^\p{L}\s]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  // Without letters there is still an emoji or a number to say.
  return text.trim() === '' || FILLER.test(words) ? '' : text
}
