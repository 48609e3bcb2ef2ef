// Topics of a folder: their sessions, and the turns of one topic with tokens and cost.
import { conversationsResource } from '../../../resources/conversations.ts'
import { badge, link, section, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { countColumn, defineTable, moneyColumn } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { PageContent, PageView } from '../page.ts'
import { defineFolderView } from './view.ts'

const { list, history, reset, fork } = conversationsResource.verbs

type TopicRow = Awaited<ReturnType<typeof list.run>>['topics'][number]
type SessionEvent = Awaited<ReturnType<typeof history.run>>['events'][number]

const topicLabel = (label: string): string => (label === '' ? 'main topic' : visibleText(label))

export const sessionsView = defineFolderView({
  name: 'sessions',
  title: 'Sessions',
  actions: {
    reset: {
      confirm: ({ label = '' }) =>
        `Start a new session in the ${topicLabel(label)}? The agent forgets the conversation.`,
      run: async (view, fields) => {
        await view.call(reset, { folder: view.params.folder ?? '', topic: fields.get('topic') ?? '' })
        return { done: 'The next message starts a new session.' }
      },
    },
    reset_all: {
      confirm: () => 'Start new sessions in all topics? The agent forgets every conversation.',
      run: async (view) => {
        const { reset: count } = await view.call(reset, { folder: view.params.folder ?? '' })
        return { done: `${count} ${count === 1 ? 'topic starts' : 'topics start'} a new session.` }
      },
    },
    fork: {
      run: async (view, fields) => {
        const child = fields.get('child')?.trim() ?? ''
        await view.call(fork, { folder: view.params.folder ?? '', parent: fields.get('parent') ?? '', child })
        return { done: `The topic ${child} continues the conversation from here.` }
      },
    },
  },
  show: (view, folder) => (view.query.history === undefined ? showTopics(view, folder) : showHistory(view, folder)),
})

async function showTopics(view: PageView, folder: string): Promise<Omit<PageContent, 'title'>> {
  const { limit, query, nowMs } = view
  const { topics, next } = await view.call(list, { folder, limit, after: query.after })
  const [mayReset] = await view.mayEach(reset, [{ folder }])
  return {
    table: defineTable<TopicRow>({
      id: 'topics',
      caption: `Topics of ${folder}`,
      rows: topics,
      rowId: ({ topic }) => topic || 'main',
      columns: [
        {
          label: 'Topic',
          cell: ({ topic, label }) => link(view.url({ history: '1', topic }), topicLabel(label)),
          value: ({ label }) => label,
        },
        { label: 'Kind', cell: ({ is_visitor }) => (is_visitor ? 'visitor' : 'folder') },
        {
          label: 'State',
          cell: stateOf,
          value: ({ turn_id, waiting }) => (turn_id ? 'running' : waiting > 0 ? 'waiting' : 'idle'),
        },
        { label: 'Waiting', cell: ({ waiting }) => waiting, isNumber: true },
        { label: 'Session', cell: ({ has_session }) => (has_session ? 'continues' : 'new') },
        {
          label: 'Forked from',
          cell: ({ parent_topic }) => (parent_topic === undefined ? '' : topicLabel(parent_topic)),
        },
        {
          label: 'Last use',
          cell: ({ updated_at }) => timeOf(updated_at, nowMs),
          value: ({ updated_at }) => updated_at,
        },
      ],
      rowActions: ({ topic, label, has_session }) =>
        mayReset && has_session
          ? view.button({
              action: 'reset',
              text: 'Reset',
              fixed: { topic, label },
              label: `Reset the ${topicLabel(label)}`,
              isDangerous: true,
            })
          : EMPTY_HTML,
      empty: { text: 'No conversation yet: topics appear with the first message.' },
      next,
    }),
    bottom: mayReset ? html`${forkForm(view, topics)}${resetAll(view, topics.length)}` : EMPTY_HTML,
    isLive: true,
  }
}

function stateOf({ turn_id, waiting }: TopicRow): Html {
  if (turn_id !== undefined) return badge('running', 'busy')
  return waiting > 0 ? badge('waiting', 'warn') : badge('idle')
}

function resetAll(view: PageView, topics: number): Html {
  return topics === 0 ? EMPTY_HTML : view.button({ action: 'reset_all', text: 'Reset all sessions', isDangerous: true })
}

function forkForm(view: PageView, topics: readonly TopicRow[]): Html {
  const parents = topics.filter(({ is_visitor }) => !is_visitor)
  if (parents.length === 0) return EMPTY_HTML
  const fields = [
    {
      name: 'parent',
      label: 'From topic',
      kind: 'select',
      options: parents.map(({ topic, label }) => [topic, topicLabel(label)] as const),
    },
    { name: 'child', label: 'New topic', isRequired: true, maxLength: 128 },
  ] as const
  return section('fork-topic', 'Fork a topic', view.form({ action: 'fork', fields, submit: 'Fork topic' }))
}

async function showHistory(view: PageView, folder: string): Promise<Omit<PageContent, 'title'>> {
  const { limit, query, nowMs } = view
  const { topic = '', after } = query
  const { events, next } = await view.call(history, { folder, topic, after, limit: Math.min(limit, 100) })
  return {
    main: html`<p>${link(view.url({ history: undefined, topic: undefined }), 'All topics')} · History of the ${topicLabel(topic)}</p>`,
    table: defineTable<SessionEvent>({
      id: 'session-events',
      caption: `History of the ${topicLabel(topic)} of ${folder}`,
      rows: events,
      rowId: ({ id }) => String(id),
      columns: [
        { label: 'When', cell: ({ started_at }) => timeOf(started_at, nowMs), value: ({ started_at }) => started_at },
        { label: 'Event', cell: ({ event }) => event },
        { label: 'Turn', cell: turnLink, value: ({ turn_id }) => turn_id },
        { label: 'Messages', cell: ({ message_count }) => message_count, isNumber: true },
        countColumn('Input tokens', ({ input_tokens }) => input_tokens),
        countColumn('Output tokens', ({ output_tokens }) => output_tokens),
        moneyColumn('Cost', ({ cost_cents }) => cost_cents),
        { label: 'Error', cell: ({ error }) => (error === undefined ? '' : visibleText(error)) },
      ],
      empty: { text: 'Nothing has happened in this topic yet.' },
      next,
    }),
    isLive: true,
  }
}

function turnLink({ turn_id }: SessionEvent): Html {
  return turn_id === undefined ? EMPTY_HTML : link(`/dash/turns/${encodeURIComponent(turn_id)}`, turn_id.slice(0, 8))
}
