// Tool calls that wait for an approval, and the last decisions.
import { pendingActionsResource } from '../../../resources/pending-actions.ts'
import { badge, section, type Tone, textBlock, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { approvalActions, decisionButtons, mayDecide } from '../approval-parts.ts'
import { definePage, type PageView } from '../page.ts'
import { folderLink } from '../turn-parts.ts'

type HeldCall = Awaited<ReturnType<typeof pendingActionsResource.verbs.list.run>>['held'][number]

const TONES: Readonly<Record<HeldCall['status'], Tone>> = {
  held: 'warn',
  approved: 'ok',
  released: 'ok',
  rejected: 'fault',
  expired: 'idle',
}

export const approvalsPage = definePage({
  path: '/dash/approvals',
  title: 'Approvals',
  nav: 'work',
  actions: approvalActions,
  show: async (view) => {
    const { held, decided } = await view.call(pendingActionsResource.verbs.list, { decided: 50 })
    const isDecider = await mayDecide(view)
    return {
      title: 'Approvals',
      table: defineTable<HeldCall>({
        id: 'held',
        caption: 'Tool calls that wait for an approval',
        rows: held,
        rowId: ({ id }) => id,
        columns: [
          { label: 'Held', cell: ({ held_at }) => timeOf(held_at, view.nowMs), value: ({ held_at }) => held_at },
          ...callColumns(),
        ],
        rowActions: isDecider ? (call) => decisionButtons(view, call) : undefined,
        empty: {
          text: 'No tool call waits for an approval. A row with the action hold:mcp:<tool> makes calls of that tool wait.',
          command: view.inTerminal(`svc approvals ${view.host.instance} list`),
        },
      }),
      bottom: section('decided', 'Last decisions', decisions(view, decided)),
      isLive: true,
    }
  },
})

function callColumns() {
  return [
    { label: 'Folder', cell: ({ folder }: HeldCall) => folderLink(folder), value: ({ folder }: HeldCall) => folder },
    { label: 'Tool', cell: ({ tool }: HeldCall) => html`<code>${tool}</code>`, value: ({ tool }: HeldCall) => tool },
    {
      label: 'Arguments',
      isProse: true as const,
      cell: ({ id, summary }: HeldCall) => textBlock(`arguments-${id}`, summary),
      value: ({ summary }: HeldCall) => summary,
    },
    { label: 'Chat', cell: ({ jid = '' }: HeldCall) => jid },
    { label: 'Id', cell: ({ id }: HeldCall) => html`<code>${id}</code>`, value: ({ id }: HeldCall) => id },
  ]
}

function decisions(view: PageView, decided: readonly HeldCall[]) {
  const { nowMs } = view
  if (decided.length === 0) return html`<p class="muted">None yet.</p>`
  return view.list<HeldCall>({
    id: 'decisions',
    caption: 'Last decisions, newest first',
    rows: decided,
    rowId: ({ id }) => id,
    columns: [
      { label: 'Changed', cell: ({ updated_at }) => timeOf(updated_at, nowMs) },
      { label: 'Decision', cell: ({ status }) => badge(status, TONES[status]) },
      { label: 'By', cell: ({ decided_by }) => (decided_by === undefined ? EMPTY_HTML : visibleText(decided_by)) },
      ...callColumns(),
    ],
    empty: { text: 'None yet.' },
  })
}
