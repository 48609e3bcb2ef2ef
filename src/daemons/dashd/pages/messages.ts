// Messages, newest first, with filters and full-text search, and retries of those that failed.
import type { z } from 'zod'
import type { ListedMessage } from '../../../core/messages/message-list.ts'
import { Refusal } from '../../../lib/refusal.ts'
import { inboxResource } from '../../../resources/inbox.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import { link, notice, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { type AnyTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import {
  MESSAGE_STATES,
  messageLink,
  nameOf,
  omitEmpty,
  optionalFolderLink,
  retryButton,
  stateBadge,
  timeInput,
} from '../message-parts.ts'
import { definePage, type PageView } from '../page.ts'
import { faultNotice } from '../view.ts'
import { MESSAGE_ACTIONS } from './message.ts'

const { list, search, retry_all } = inboxResource.verbs

export const messagesPage = definePage({
  path: '/dash/messages',
  title: 'Messages',
  nav: 'work',
  actions: {
    ...MESSAGE_ACTIONS,
    retry_all: {
      run: async (view, fields) => {
        const ids = (fields.get('ids') ?? '').split(' ').filter((id) => id !== '')
        const { retried, results } = await view.call(retry_all, { ids })
        const [first] = results.flatMap(({ error }) => error ?? [])
        const rest = first === undefined ? '' : ` ${results.length - retried} could not be retried: ${first}.`
        return { done: `${retried} of ${results.length} messages wait for another attempt.${rest}` }
      },
    },
  },
  show: async (view) => {
    const content = await readContent(view)
    return { title: 'Messages', top: renderTop(view), ...content, isLive: !hasEnded(view) }
  },
})

/** A time range that is over does not change. */
function hasEnded({ query, nowMs }: PageView): boolean {
  return Date.parse(timeInput(query.until) ?? '') <= nowMs
}

function renderTop(view: PageView): Html {
  const { query, path } = view
  return renderFilters({
    id: 'message-filters',
    path,
    query,
    fields: [
      {
        ...{ name: 'q', label: 'Search', kind: 'search', placeholder: 'word, "a phrase", a OR b, prefix*' },
        maxLength: 2000,
      },
      { name: 'folder', label: 'Folder', kind: 'search' },
      { name: 'state', label: 'State', kind: 'select', options: [['', 'any'], ...MESSAGE_STATES] },
      {
        ...{ name: 'direction', label: 'Direction', kind: 'select' },
        options: [
          ['', 'by default'],
          ['in', 'received'],
          ['out', 'sent'],
          ['all', 'received and sent'],
        ],
      },
      { name: 'chat', label: 'Chat', kind: 'search', placeholder: 'web:team' },
      { name: 'sender', label: 'Sender', kind: 'search' },
      { name: 'since', label: 'From (UTC)', kind: 'datetime' },
      { name: 'until', label: 'Until (UTC)', kind: 'datetime' },
    ],
  })
}

interface ListedPage {
  readonly main?: Html
  readonly table?: AnyTable
}

/** A wrong filter or query is explained in place of the table, and stays in its field. */
async function readContent(view: PageView): Promise<ListedPage> {
  try {
    return await ((view.query.q ?? '').trim() === '' ? readList(view) : readFound(view))
  } catch (error) {
    if (error instanceof Refusal && (error.code === 'invalid' || error.code === 'unavailable'))
      return { main: faultNotice(error) }
    throw error
  }
}

function filtersOf({ query }: PageView) {
  const { folder, state, direction, chat, sender, since, until } = query
  const texts = { folder, state, direction, chat, sender, since: timeInput(since), until: timeInput(until) }
  // The verb checks the values.
  return omitEmpty(texts) as Omit<z.input<typeof list.input>, 'limit' | 'after'>
}

async function readList(view: PageView): Promise<ListedPage> {
  const { after } = view.query
  const input = { ...filtersOf(view), limit: view.limit, ...omitEmpty({ after }) }
  const { messages, next, searched_back_to } = await view.call(list, input)
  const more =
    searched_back_to === undefined
      ? EMPTY_HTML
      : notice(
          'warn',
          html`Searched back to ${timeOf(searched_back_to, view.nowMs)}. ${link(view.url({ after: next }), 'Search further back')}`,
        )
  return { main: html`${more}${renderBulk(view, messages)}`, table: messageTable(view, messages, next) }
}

async function readFound(view: PageView): Promise<ListedPage> {
  const { after } = view.query
  const input = { ...filtersOf(view), query: view.query.q ?? '', limit: view.limit, ...omitEmpty({ after }) }
  const { messages, next, is_capped } = await view.call(search, input)
  const capped = is_capped
    ? notice('warn', 'These are the best matches. There may be more: add words or filters to see others.')
    : EMPTY_HTML
  const rows = messages.map(({ snippet, ...message }) => ({ ...message, text: snippet }))
  return { main: html`${capped}${renderBulk(view, rows)}`, table: messageTable(view, rows, next) }
}

/** Who sees a message here may retry it, so rights are not checked for each. */
function renderBulk(view: PageView, messages: readonly ListedMessage[]): Html {
  const failed = messages.filter(({ can_retry, state }) => can_retry && state !== 'unknown')
  if (failed.length < 2) return EMPTY_HTML
  const ids = failed.map(({ id }) => id).join(' ')
  return html`<p>${view.button({ action: 'retry_all', fixed: { ids }, text: `Retry all ${failed.length} on this page` })}</p>`
}

function messageTable(view: PageView, rows: readonly ListedMessage[], next: string | undefined): AnyTable {
  return defineTable<ListedMessage>({
    id: 'messages',
    caption: 'Messages',
    rows,
    rowId: ({ id }) => id,
    columns: [
      {
        label: 'Time',
        cell: ({ created_at }) => timeOf(created_at, view.nowMs),
        value: ({ created_at }) => created_at,
      },
      { label: 'State', cell: ({ state }) => stateBadge(state), value: ({ state }) => state },
      { label: 'Folder', cell: ({ folder }) => optionalFolderLink(folder), value: ({ folder }) => folder },
      { label: 'Chat', cell: ({ chat }) => nameOf(chat), value: ({ chat }) => chat },
      {
        label: 'Sender',
        cell: ({ sender, direction }) => nameOf(direction === 'out' ? `${sender} (sent)` : sender),
        value: ({ sender }) => sender,
      },
      { label: 'Text', isProse: true, cell: ({ id, text }) => messageLink(id, text), value: ({ text }) => text },
      { label: 'Reason', cell: ({ reason = '' }) => visibleText(reason) },
      { label: 'Id', cell: ({ id }) => html`<code>${id.slice(-6)}</code>`, value: ({ id }) => id },
    ],
    rowActions: (message) => (message.can_retry ? retryButton(view, message) : EMPTY_HTML),
    empty: {
      text:
        Object.keys(filtersOf(view)).length > 0 || view.query.q
          ? next === undefined
            ? 'No message matches.'
            : 'No message matches so far.'
          : 'No messages yet.',
      command: `svc messages ${view.host.instance}`,
    },
    next,
  })
}
