// Messages, newest first, with filters and full-text search, and retries of those that failed.
import type { z } from 'zod'
import type { ListedMessage } from '../../../core/messages/message-list.ts'
import { refuse } from '../../../lib/refusal.ts'
import { inboxResource } from '../../../resources/inbox.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import { link, notice, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { type AnyTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import {
  foundLink,
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
import { explainWrongFilter } from '../wrong-filters.ts'
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
    retry_matching: {
      run: async (view) => {
        const { retried, failed, isCut } = await retryMatching(view)
        const rest = failed === 0 ? '' : ` ${failed} could not be retried.`
        const more = isCut ? ' More match: retry again.' : ''
        return {
          done: `${retried} ${retried === 1 ? 'message waits' : 'messages wait'} for another attempt.${rest}${more}`,
        }
      },
      confirm: () => 'Retry every failed message that matches the filters, also those on other pages?',
    },
  },
  show: async (view) => {
    const isSearch = (view.query.q ?? '').trim() !== ''
    const content = await explainWrongFilter(() => (isSearch ? readFound(view) : readList(view)))
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

function filtersOf({ query }: PageView) {
  const { folder, state, direction, chat, sender, since, until } = query
  const texts = { folder, state, direction, chat, sender, since: timeInput(since), until: timeInput(until) }
  // The verb checks the values.
  return omitEmpty(texts) as Omit<z.input<typeof list.input>, 'limit' | 'after'>
}

function callList(view: PageView, limit: number, after: string | undefined) {
  return view.call(list, { ...filtersOf(view), limit, ...omitEmpty({ after }) })
}

function callSearch(view: PageView, limit: number, after: string | undefined) {
  return view.call(search, { ...filtersOf(view), query: view.query.q ?? '', limit, ...omitEmpty({ after }) })
}

async function readList(view: PageView): Promise<ListedPage> {
  const { messages, next, searched_back_to } = await callList(view, view.limit, view.query.after)
  const more =
    searched_back_to === undefined
      ? EMPTY_HTML
      : notice(
          'warn',
          html`Searched back to ${timeOf(searched_back_to, view.nowMs)}. ${link(view.url({ after: next }), 'Search further back')}`,
        )
  return { main: html`${more}${renderBulk(view, messages, next)}`, table: messageTable(view, messages, next) }
}

async function readFound(view: PageView): Promise<ListedPage> {
  const { messages, next, is_capped } = await callSearch(view, view.limit, view.query.after)
  const capped = is_capped
    ? notice('warn', 'These are the best matches. There may be more: add words or filters to see others.')
    : EMPTY_HTML
  const rows = messages.map(({ snippet, ...message }) => ({ ...message, text: snippet }))
  return { main: html`${capped}${renderBulk(view, rows, next)}`, table: messageTable(view, rows, next) }
}

/** A delivery with an unknown end is not retried without a question. */
function retryable<M extends Pick<ListedMessage, 'can_retry' | 'state'>>(messages: readonly M[]): M[] {
  return messages.filter(({ can_retry, state }) => can_retry && state !== 'unknown')
}

/** States whose messages all can be retried. Others would have to be searched for failed ones. */
const RETRIED_STATES: readonly (string | undefined)[] = ['failed', 'refused']

/** Who sees a message here may retry it, so rights are not checked for each. */
function renderBulk(view: PageView, messages: readonly ListedMessage[], next: string | undefined): Html {
  const failed = retryable(messages)
  const ids = failed.map(({ id }) => id).join(' ')
  const { state, after } = view.query
  const hasMore = next !== undefined || after !== undefined
  const ofPage =
    failed.length < 2
      ? EMPTY_HTML
      : view.button({ action: 'retry_all', fixed: { ids }, text: `Retry all ${failed.length} on this page` })
  const ofAll =
    failed.length === 0 || !hasMore
      ? EMPTY_HTML
      : RETRIED_STATES.includes(state)
        ? view.button({ action: 'retry_matching', text: 'Retry all that match' })
        : link(view.url({ state: 'failed' }), 'All failed messages')
  return html`<p class="choice">${ofPage}${ofAll}</p>`
}

interface MatchingPage {
  readonly messages: readonly Pick<ListedMessage, 'id' | 'can_retry' | 'state'>[]
  readonly next?: string | undefined
}

const MATCHING_MAX = 5000
const MATCHING_PAGE = 200

/** All pages of the list, one after the other: a retried message keeps its place in it. */
async function retryMatching(view: PageView): Promise<{ retried: number; failed: number; isCut: boolean }> {
  if (!RETRIED_STATES.includes(view.query.state)) refuse('invalid', 'choose the state failed or refused first')
  const isSearch = (view.query.q ?? '').trim() !== ''
  let [retried, failed, after]: [number, number, string | undefined] = [0, 0, undefined]
  do {
    const page: MatchingPage = await (isSearch ? callSearch : callList)(view, MATCHING_PAGE, after)
    const ids = retryable(page.messages).map(({ id }) => id)
    const done = ids.length === 0 ? { retried: 0 } : await view.call(retry_all, { ids })
    retried += done.retried
    failed += ids.length - done.retried
    after = page.next
  } while (after !== undefined && retried + failed < MATCHING_MAX)
  return { retried, failed, isCut: after !== undefined }
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
      {
        label: 'Text',
        isProse: true,
        cell: ({ id, text }) => (view.query.q ? foundLink(id, text) : messageLink(id, text)),
        value: ({ text }) => text,
      },
      { label: 'Reason', cell: ({ reason = '' }) => visibleText(reason) },
      { label: 'Id', cell: ({ id }) => html`<code>${id.slice(-6)}</code>`, value: ({ id }) => id },
    ],
    rowActions: (message) => (message.can_retry ? retryButton(view, message) : EMPTY_HTML),
    empty:
      Object.keys(filtersOf(view)).length > 0 || view.query.q
        ? {
            text: next === undefined ? 'No message matches.' : 'No message matches so far.',
            next: link(view.path, 'All messages'),
            command: view.inTerminal(`svc messages ${view.host.instance}`),
          }
        : {
            text: 'No messages yet. They arrive through chat links, webhooks and adapters of folders.',
            next: link('/dash/folders', 'Folders'),
            command: view.inTerminal(`svc send ${view.host.instance} main 'hello'`),
          },
    next,
  })
}
