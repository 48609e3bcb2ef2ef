// Versions of a message: the original, and the first messages of the branches that replace it. Shows them as "‹ 2 of 3 ›".
import { iconNode } from './icons.ts'
import { element, iconButton } from './nodes.ts'
import { uiText } from './texts.ts'

/** A topic of a conversation; numbers are of events. */
export interface TopicVersion {
  readonly topic: string
  /** Topic that it continues, up to the event `fork`; empty numbers for the first topic. */
  readonly parent: string | undefined
  readonly fork: number
  readonly first: number
  readonly last: number
}

interface MessageVersions {
  /** The topic to open for each version, in order. */
  readonly topics: readonly string[]
  readonly current: number
}

/** Of the message with this number in this topic; undefined if it has no other version. */
export function versionsOf(all: readonly TopicVersion[], topic: string, seq: number): MessageVersions | undefined {
  const own = all.find((version) => version.topic === topic)
  const isFork = all.some(({ parent, fork }) => parent === topic && fork === seq)
  const isFirst = own?.parent !== undefined && own.first === seq
  if (!isFork && !isFirst) return undefined
  const [parent, fork] = isFork || !own ? [topic, seq] : [own.parent ?? '', own.fork]
  const others = all.filter((version) => version.parent === parent && version.fork === fork)
  const branches = others.toSorted((a, b) => a.first - b.first)
  return {
    topics: [newestFrom(all, parent, fork).topic, ...branches.map((branch) => newestFrom(all, branch.topic, -1).topic)],
    current: isFork ? 0 : 1 + branches.findIndex((branch) => branch.topic === topic),
  }
}

/** The topic with the latest message among this one and the branches that continue it beyond the event `after`. */
function newestFrom(all: readonly TopicVersion[], topic: string, after: number): { topic: string; last: number } {
  let newest = { topic, last: all.find((version) => version.topic === topic)?.last ?? 0 }
  for (const { topic: branch, parent, fork } of all) {
    if (parent !== topic || fork <= after || branch === topic) continue
    const below = newestFrom(all, branch, -1)
    if (below.last > newest.last) newest = below
  }
  return newest
}

export function versionSwitch({ topics, current }: MessageVersions, onSelect: (topic: string) => void): HTMLElement {
  const button = (label: string, icon: 'previous' | 'next', at: number): HTMLElement => {
    const made = iconButton(label, iconNode(icon), 'quiet')
    const topic = topics[at]
    made.disabled = topic === undefined
    if (topic !== undefined) made.addEventListener('click', () => onSelect(topic))
    return made
  }
  return element(
    'span',
    { class: 'versions', role: 'group', 'aria-label': uiText('versions'), dir: 'ltr' },
    button(uiText('previousVersion'), 'previous', current - 1),
    uiText('versionOf', { current: current + 1, count: topics.length }),
    button(uiText('nextVersion'), 'next', current + 1),
  )
}
