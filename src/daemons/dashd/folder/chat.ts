// The person's own chat with the folder: their session opens it, and the agent sees their sub as the sender.
import { openPersonChat, routeTokensResource } from '../../../resources/route-tokens.ts'
import { notice } from '../../../web/dash/parts.ts'
import { html } from '../../../web/html.ts'
import { defineFolderView } from './view.ts'

export const chatView = defineFolderView({
  name: 'chat',
  title: 'Chat',
  actions: {
    chat: {
      run: async (view) => ({
        to: await openPersonChat(view.person.request, view.params.folder ?? ''),
        done: 'Your chat is open.',
      }),
    },
  },
  show: async (view, folder) => {
    if (!(await view.may(routeTokensResource.verbs.open_person_chat, { folder })))
      return { main: notice('warn', 'You may not chat with this folder: you lack the right interact.') }
    return {
      top: html`<p>Your own chat with <code>${folder}</code>, as <code>${view.person.sub}</code>. Other people do not see it, and it needs your session: its address alone opens nothing.</p>${view.button({ action: 'chat', text: 'Open the chat', isPrimary: true })}`,
    }
  },
})
