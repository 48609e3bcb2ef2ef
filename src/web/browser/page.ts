// Entry of the chat page.

import { ChatApp } from './chat.ts'

const container = document.getElementById('chat')
if (container) startPage(container)

function startPage(root: HTMLElement): void {
  const { name = '', folder = '' } = root.dataset
  let unread = 0
  const setUnread = (count: number): void => {
    unread = count
    document.title = unread > 0 ? `(${unread}) ${name}` : name
  }
  const chat = new ChatApp({
    base: new URL('./', location.href).href,
    name,
    folder,
    credentials: 'same-origin',
    limits: {
      each: Number(root.dataset.attachmentMax),
      count: Number(root.dataset.attachmentsMax),
      total: Number(root.dataset.attachmentsTotal),
    },
    onUnread: () => setUnread(unread + 1),
  })
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') setUnread(0)
  })
  root.replaceChildren(chat.view.app)
  chat.open()
  // On a phone the keyboard would cover the messages.
  if (matchMedia('(hover: hover)').matches) chat.focus()
}
