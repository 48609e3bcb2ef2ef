// The table of folders with what happened in them today.
import { type FolderActivity, type FolderState, MESSAGES_SHOWN_MAX } from '../../core/groups/groups.ts'
import { badge, type EmptyState, link, money, type Tone, timeOf } from '../../web/dash/parts.ts'
import { type AnyTable, defineTable } from '../../web/dash/table.ts'
import { type Html, html } from '../../web/html.ts'
import { folderPath } from './page.ts'

const TONES: Readonly<Record<FolderState, Tone>> = { paused: 'fault', running: 'busy', waiting: 'warn', idle: 'idle' }

export function folderStateBadge(state: FolderState): Html {
  return badge(state, TONES[state])
}

export function messageCountText(count: number): string {
  return count >= MESSAGES_SHOWN_MAX ? `${MESSAGES_SHOWN_MAX}+` : String(count)
}

interface FolderTable {
  readonly caption: string
  readonly folders: readonly FolderActivity[]
  readonly next?: string | undefined
  readonly nowMs: number
  readonly empty: EmptyState
}

export function folderTable({ caption, folders, next, nowMs, empty }: FolderTable): AnyTable {
  return defineTable<FolderActivity>({
    id: 'folders',
    caption,
    rows: folders,
    rowId: ({ folder }) => folder,
    columns: [
      {
        label: 'Folder',
        cell: ({ folder }) => link(folderPath(folder), treeName(folder)),
        value: ({ folder }) => folder,
      },
      { label: 'Name', cell: ({ name }) => name },
      { label: 'State', cell: ({ state }) => folderStateBadge(state), value: ({ state }) => state },
      {
        label: 'Messages today',
        cell: ({ messages_today }) => messageCountText(messages_today),
        value: ({ messages_today }) => messages_today,
        isNumber: true,
      },
      {
        label: 'Cost today',
        cell: ({ cost_today_cents, cost_cap_cents_per_day: cap }) =>
          cap === undefined ? money(cost_today_cents) : `${money(cost_today_cents)} of ${money(cap)}`,
        value: ({ cost_today_cents }) => cost_today_cents / 100,
        isNumber: true,
      },
      { label: 'Last activity', cell: ({ last_at }) => timeOf(last_at, nowMs), value: ({ last_at }) => last_at },
    ],
    empty,
    next,
  })
}

/** The folders above are muted, so that a sorted list reads as a tree. */
function treeName(folder: string): Html {
  const at = folder.lastIndexOf('/') + 1
  return html`<span class="muted">${folder.slice(0, at)}</span>${folder.slice(at)}`
}
