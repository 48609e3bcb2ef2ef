// The chat as a page of its own.
import { ChatApp } from './chat.ts'

const place = document.getElementById('chat')
if (place) startPage(place)

function startPage(at: HTMLElement): void {
  const { name = '', folder = '', stream = '' } = at.dataset
  let unread = 0
  const showUnread = (): void => {
    document.title = unread > 0 ? `(${unread}) ${name}` : name
  }
  const chat = new ChatApp({
    base: new URL('./', location.href).href,
    name,
    folder,
    hasStream: stream !== 'no',
    credentials: 'same-origin',
    onUnread: () => {
      unread++
      showUnread()
    },
  })
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState !== 'visible') return
    unread = 0
    showUnread()
  })
  at.replaceChildren(chat.view.app)
  chat.open()
  // On a phone the keyboard would cover what is to be read first.
  if (matchMedia('(hover: hover)').matches) chat.focus()
}
