// Edits a message in its place: a form instead of its text.
import { element } from './nodes.ts'
import { uiText } from './texts.ts'

interface EditOptions {
  readonly content: string
  /** Returns whether it is sent. */
  readonly onSend: (content: string) => boolean
}

/** Does nothing if the message is being edited. */
export function openMessageEditor(node: HTMLElement, { content, onSend }: EditOptions): void {
  const text = node.querySelector<HTMLElement>('.text')
  if (!text || node.querySelector('.edit')) return
  const input = element('textarea', { 'aria-label': uiText('editMessage'), dir: 'auto', rows: '3' })
  input.value = content
  const send = element('button', { type: 'submit', class: 'more' }, uiText('send'))
  const cancel = element('button', { type: 'button', class: 'more' }, uiText('cancel'))
  const form = element('form', { class: 'edit' }, input, element('div', { class: 'edit-buttons' }, cancel, send))
  const close = (): void => {
    form.remove()
    node.classList.remove('editing')
    node.querySelector('.refused')?.remove()
  }
  const leave = (): void => {
    close()
    node.querySelector<HTMLElement>('.act')?.focus()
  }
  const submit = (): void => {
    if (input.value.trim() !== '' && onSend(input.value)) close()
  }
  cancel.addEventListener('click', leave)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    submit()
  })
  form.addEventListener('keydown', (event) => {
    if (event.isComposing || event.keyCode === 229) return
    if (event.key === 'Escape') {
      // Not for the panel of a widget, nor to stop an answer.
      event.stopPropagation()
      leave()
    } else if (event.key === 'Enter' && !event.shiftKey && event.target === input) {
      event.preventDefault()
      submit()
    }
  })
  node.classList.add('editing')
  text.after(form)
  const root = node.getRootNode()
  const focused = root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null
  if (!focused?.matches('input, textarea')) input.focus()
}
