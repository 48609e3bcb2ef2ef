// Renders parsed Markdown as DOM nodes. Text never becomes HTML.
import { type Alignment, type Block, type Inline, parseMarkdown, safeUrl } from '../../lib/text/markdown.ts'
import { copyButton } from './copy.ts'
import { codeLanguage } from './highlight.ts'
import { element } from './nodes.ts'
import { uiText } from './texts.ts'

export function renderProse(text: string): Node[] {
  return parseMarkdown(text).map((block) => blockNode(block))
}

/** Outer blocks detect their text direction; blocks in a list or quote inherit it, together with its bullets and bar. */
function blockNode(block: Block, attributes: Readonly<Record<string, string>> = { dir: 'auto' }): Node {
  switch (block.kind) {
    case 'paragraph':
      return element('p', attributes, ...block.children.map(inlineNode))
    case 'heading': {
      // The page itself uses h1 and h2.
      const tags = ['h3', 'h4', 'h5', 'h6'] as const
      return element(tags[Math.min(block.level, 4) - 1] ?? 'h6', attributes, ...block.children.map(inlineNode))
    }
    case 'code':
      return codeNode(block.language, block.text)
    case 'quote':
      return element('blockquote', attributes, ...block.children.map((child) => blockNode(child, {})))
    case 'list': {
      const items = block.items.map((item) => element('li', {}, ...itemNodes(item)))
      if (block.start === undefined) return element('ul', attributes, ...items)
      return element('ol', { ...attributes, start: String(block.start) }, ...items)
    }
    case 'table':
      return tableNode(block)
    case 'footnote': {
      const content = [referenceNode(block.label), ' ', ...block.children.map(inlineNode)]
      return element('p', { ...attributes, class: 'footnote' }, ...content)
    }
    case 'rule':
      return element('hr')
  }
}

/** The first paragraph of an item gets no `p`. */
function itemNodes(item: readonly Block[]): Node[] {
  return item.flatMap((block, at) => {
    if (block.kind === 'paragraph' && at === 0) return block.children.map(inlineNode)
    return [blockNode(block, {})]
  })
}

function codeNode(language: string, text: string): Node {
  const bar = element('div', { class: 'code-bar' }, element('span', {}, language || uiText('code')))
  bar.append(copyButton(uiText('copyCode'), () => text))
  const known = codeLanguage(language)
  // Focusable, so that the keyboard can scroll wide code.
  const body = element(
    'pre',
    { dir: 'ltr', tabindex: '0' },
    element('code', known === undefined ? {} : { 'data-language': known }, text),
  )
  return element('div', { class: 'code' }, bar, body)
}

function tableNode({ alignments, head, rows }: Extract<Block, { kind: 'table' }>): Node {
  const row = (cells: readonly (readonly Inline[])[], tag: 'td' | 'th'): Node =>
    element('tr', {}, ...cells.map((cell, at) => element(tag, cellAttributes(alignments[at]), ...cell.map(inlineNode))))
  const body = rows.map((cells) => row(cells, 'td'))
  const table = element('table', {}, element('thead', {}, row(head, 'th')), element('tbody', {}, ...body))
  return element('div', { class: 'wide', tabindex: '0' }, table)
}

/** A style attribute would be against the content security policy. */
function cellAttributes(alignment: Alignment | undefined): Readonly<Record<string, string>> {
  return alignment === undefined ? { dir: 'auto' } : { dir: 'auto', class: `align-${alignment}` }
}

function checkboxNode(isChecked: boolean): Node {
  const label = uiText(isChecked ? 'done' : 'notDone')
  const attributes = { type: 'checkbox', disabled: '', 'aria-label': label }
  return element('input', isChecked ? { ...attributes, checked: '' } : attributes)
}

function referenceNode(label: string): Node {
  return element('sup', {}, label)
}

function inlineNode(inline: Inline): Node {
  switch (inline.kind) {
    case 'text':
      return document.createTextNode(inline.text)
    case 'code':
      return element('code', {}, inline.text)
    case 'break':
      return element('br')
    case 'checkbox':
      return checkboxNode(inline.isChecked)
    case 'reference':
      return referenceNode(inline.label)
    case 'strong':
      return element('strong', {}, ...inline.children.map(inlineNode))
    case 'emphasis':
      return element('em', {}, ...inline.children.map(inlineNode))
    case 'strike':
      return element('s', {}, ...inline.children.map(inlineNode))
    case 'link': {
      const children = inline.children.map(inlineNode)
      const href = safeUrl(inline.href)
      if (!href) return element('span', {}, ...children)
      return element('a', { href, target: '_blank', rel: 'noreferrer noopener nofollow' }, ...children)
    }
  }
}
