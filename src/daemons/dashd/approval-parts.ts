// Decisions on held tool calls, for the pages that show them.
import { pendingActionsResource } from '../../resources/pending-actions.ts'
import type { Html } from '../../web/html.ts'
import { html } from '../../web/html.ts'
import type { PageAction, PageView } from './page.ts'

const { decide } = pendingActionsResource.verbs

export const approvalActions: Readonly<Record<'approve' | 'reject', PageAction>> = {
  approve: { verb: decide, done: 'Approved. The agent was told to repeat the call.' },
  reject: { verb: decide, done: 'Rejected. The agent was told not to repeat the call.' },
}

/** The page needs `approvalActions`. */
export function decisionButtons(view: PageView, { id, tool }: { readonly id: string; readonly tool: string }): Html {
  const button = (action: 'approve' | 'reject', text: string): Html =>
    view.button({
      action,
      text,
      label: `${text} ${tool} ${id}`,
      fixed: { id, decision: action },
      ...(action === 'approve' ? { isPrimary: true } : { isDangerous: true }),
    })
  return html`${button('approve', 'Approve')}${button('reject', 'Reject')}`
}

/** Whether the person may decide at all. */
export function mayDecide(view: PageView): Promise<boolean> {
  return view.may(decide, { id: 'any', decision: 'approve' })
}
