// Messages as lines: what became of each, at most one line high.
import type { InboxState } from '../../core/messages/inbox.ts'
import type { MessageState } from '../../core/messages/message-states.ts'
import type { PrintedTable } from '../../lib/command-line/print.ts'
import type { SvcContext } from '../command.ts'

/** Which messages are shown. */
export interface MessageFilter {
  readonly folder?: string | undefined
  readonly state?: InboxState | undefined
  readonly limit?: number | undefined
}

/** A table that grows: the header once, and with --json a line for each. */
export function messageTablePrinter(svc: SvcContext, only: MessageFilter): (messages: readonly MessageState[]) => void {
  let hasHeader = false
  return (messages) => {
    if (svc.print.json) for (const message of messages) svc.print.line(JSON.stringify(message))
    else if (messages.length > 0) {
      svc.print.table({ ...messageTable(svc, messages, only), ...(hasHeader ? { header: false } : {}) })
      hasHeader = true
    }
  }
}

/** For eyes, columns that stay where they are while the table grows. */
const WIDTHS = { id: 13, state: 10, folder: 12, chat: 20, sender: 16 }
const TEXT_LEAST = 24
const TIME_WIDTH = 24
const REASON_WIDTH = 24

export function messageTable(
  svc: SvcContext,
  rows: readonly MessageState[],
  { folder, state }: MessageFilter,
): PrintedTable<MessageState> {
  const { isTerminal, width = 120 } = svc.io.stdout
  const others = Object.values(WIDTHS).reduce((sum, each) => sum + each, TIME_WIDTH + REASON_WIDTH) + 14
  const fit = (text: string, columns: number): string =>
    isTerminal ? truncateColumns(text, columns).padEnd(columns) : text
  const of = folder === undefined ? '' : ` of ${folder}`
  return {
    rows,
    columns: {
      TIME: ({ created_at }) => created_at,
      ID: ({ short_id }) => (isTerminal ? short_id.padEnd(WIDTHS.id) : short_id),
      STATE: (message) => fit(message.state, WIDTHS.state),
      FOLDER: (message) => fit(message.folder ?? '-', WIDTHS.folder),
      CHAT: ({ chat }) => fit(chat, WIDTHS.chat),
      SENDER: ({ sender }) => fit(sender, WIDTHS.sender),
      TEXT: ({ text }) => fit(collapseWhitespace(text), Math.max(TEXT_LEAST, width - others)),
      REASON: ({ reason = '-' }) => reason,
    },
    empty: state === undefined ? `no messages${of}` : `no messages${of} that are ${state}`,
  }
}

export function collapseWhitespace(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}

export function truncateColumns(text: string, columns: number): string {
  const letters = [...text]
  return letters.length <= columns ? text : `${letters.slice(0, columns - 1).join('')}…`
}
