// Creates DOM nodes. Text is only added as text nodes, so a message can never become markup.

export type Child = Node | string

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value)
  node.append(...children)
  return node
}

/** A button with an icon; the label is for screen readers and the tooltip. */
export function iconButton(label: string, icon: Node, className = 'icon'): HTMLButtonElement {
  return element('button', { type: 'button', class: className, 'aria-label': label, title: label }, icon)
}

/** A button that copies the result of `text`, and shows whether it succeeded. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const caption = element('span', {}, 'Copy')
  const button = element('button', { type: 'button', class: 'quiet', 'aria-label': label }, iconNode('copy'), caption)
  let timer: ReturnType<typeof setTimeout> | undefined
  button.addEventListener('click', async () => {
    caption.textContent = (await copyText(text(), button)) ? 'Copied' : 'Not copied'
    clearTimeout(timer)
    timer = setTimeout(() => {
      caption.textContent = 'Copy'
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

const ICON_PATHS = {
  copy: [
    'M9 9V5a2 2 0 0 1 2-2h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-4',
    'M5 9h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2v-8a2 2 0 0 1 2-2z',
  ],
  send: ['M12 19V5', 'M6 11l6-6 6 6'],
  topics: ['M4 7h16', 'M4 12h16', 'M4 17h10'],
  plus: ['M12 5v14', 'M5 12h14'],
  close: ['M6 6l12 12', 'M18 6L6 18'],
  edit: ['M4 20l1-4L16 5l3 3L8 19z'],
  bin: ['M5 7h14', 'M10 7V4h4v3', 'M7 7l1 13h8l1-13'],
  previous: ['M14.5 6l-6 6 6 6'],
  next: ['M9.5 6l6 6-6 6'],
  down: ['M12 5v14', 'M6 13l6 6 6-6'],
  bubble: ['M5 4h14a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2h-7l-5 4v-4H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2z', 'M8 9h8', 'M8 12.5h5'],
} as const

export function iconNode(name: keyof typeof ICON_PATHS): SVGElement {
  const namespace = 'http://www.w3.org/2000/svg'
  const svg = document.createElementNS(namespace, 'svg')
  svg.setAttribute('viewBox', '0 0 24 24')
  svg.setAttribute('aria-hidden', 'true')
  for (const d of ICON_PATHS[name]) {
    const path = document.createElementNS(namespace, 'path')
    path.setAttribute('d', d)
    svg.append(path)
  }
  return svg
}
