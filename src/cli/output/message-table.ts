// The table of messages and their states, one line each.

import type { InboxState } from '../../core/messages/inbox.ts'
import type { MessageState } from '../../core/messages/message-states.ts'
import type { PrintedTable } from '../../lib/command-line/print.ts'
import { collapseWhitespace } from '../../lib/text/whitespace.ts'
import type { SvcContext } from '../command.ts'

export interface MessageFilter {
  readonly folder?: string | undefined
  readonly state?: InboxState | undefined
  readonly limit?: number | undefined
}

/** Fixed widths on a terminal keep the columns in place while the table grows. */
const WIDTHS = { id: 13, state: 10, folder: 12, chat: 20, sender: 16 }
const TEXT_MIN_WIDTH = 24
const TIME_WIDTH = 24
const REASON_WIDTH = 24

export function messageTable(
  svc: SvcContext,
  rows: readonly MessageState[],
  { folder, state }: MessageFilter,
): PrintedTable<MessageState> {
  const { isTerminal, width = 120 } = svc.io.stdout
  const otherColumns = Object.values(WIDTHS).reduce((sum, each) => sum + each, TIME_WIDTH + REASON_WIDTH) + 14
  const fit = (text: string, columns: number): string =>
    isTerminal ? truncateColumns(text, columns).padEnd(columns) : text
  const scope = folder === undefined ? '' : ` of ${folder}`
  return {
    rows,
    columns: {
      TIME: ({ created_at }) => created_at,
      ID: ({ short_id }) => (isTerminal ? short_id.padEnd(WIDTHS.id) : short_id),
      STATE: (message) => fit(message.state, WIDTHS.state),
      FOLDER: (message) => fit(message.folder ?? '-', WIDTHS.folder),
      CHAT: ({ chat }) => fit(chat, WIDTHS.chat),
      SENDER: ({ sender }) => fit(sender, WIDTHS.sender),
      TEXT: ({ text }) => fit(collapseWhitespace(text), Math.max(TEXT_MIN_WIDTH, width - otherColumns)),
      REASON: ({ reason = '-' }) => reason,
    },
    empty: `no messages${scope}${state === undefined ? '' : ` in state ${state}`}`,
  }
}

export function truncateColumns(text: string, columns: number): string {
  const characters = [...text]
  return characters.length <= columns ? text : `${characters.slice(0, columns - 1).join('')}…`
}
