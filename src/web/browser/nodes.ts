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

/** An icon of lines. */
export function lineIcon(...paths: readonly string[]): SVGElement {
  return svgNode('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true' }, ...paths.map((d) => svgNode('path', { d })))
}

export function svgNode(
  tag: string,
  attributes: Readonly<Record<string, string>>,
  ...children: readonly Child[]
): SVGElement {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value)
  node.append(...children)
  return node
}
