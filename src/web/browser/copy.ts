// A button that copies text.
import { iconNode } from './icons.ts'
import { element } from './nodes.ts'
import { uiText } from './texts.ts'

/** Copies the result of `text`, and shows whether it succeeded. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const caption = element('span', {}, uiText('copy'))
  const button = element('button', { type: 'button', class: 'quiet', 'aria-label': label }, iconNode('copy'), caption)
  let timer: ReturnType<typeof setTimeout> | undefined
  button.addEventListener('click', async () => {
    caption.textContent = (await copyText(text(), button)) ? uiText('copied') : uiText('notCopied')
    clearTimeout(timer)
    timer = setTimeout(() => {
      caption.textContent = uiText('copy')
    }, 2_000)
  })
  return button
}

async function copyText(text: string, beside: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // A page over plain HTTP has no `navigator.clipboard`; `execCommand` still works there.
    const area = element('textarea', { class: 'hidden', 'aria-hidden': 'true', tabindex: '-1' })
    area.value = text
    beside.after(area)
    area.select()
    const done = document.execCommand('copy')
    area.remove()
    beside.focus()
    return done
  }
}
