// Edits a message in its place: a form instead of its text.
import { element } from './nodes.ts'

interface EditOptions {
  readonly content: string
  readonly onSend: (content: string) => void
}

/** Does nothing if the message is being edited. */
export function openMessageEditor(node: HTMLElement, { content, onSend }: EditOptions): void {
  const text = node.querySelector<HTMLElement>('.text')
  if (!text || node.querySelector('.edit')) return
  const opener = document.activeElement
  const input = element('textarea', { 'aria-label': 'Edit your message', dir: 'auto', rows: '3' })
  input.value = content
  const send = element('button', { type: 'submit', class: 'more' }, 'Send')
  const cancel = element('button', { type: 'button', class: 'more' }, 'Cancel')
  const form = element('form', { class: 'edit' }, input, element('div', { class: 'edit-buttons' }, cancel, send))
  const close = (): void => {
    form.remove()
    node.classList.remove('editing')
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus()
  }
  const submit = (): void => {
    if (input.value.trim() === '') return
    close()
    onSend(input.value)
  }
  cancel.addEventListener('click', close)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    submit()
  })
  input.addEventListener('keydown', (event) => {
    if (event.isComposing || event.keyCode === 229) return
    if (event.key === 'Escape') {
      // Not for the panel of a widget, nor to stop an answer.
      event.stopPropagation()
      close()
    } else if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault()
      submit()
    }
  })
  node.classList.add('editing')
  text.after(form)
  input.focus()
}
