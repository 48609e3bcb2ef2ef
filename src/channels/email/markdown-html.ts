// HTML of the Markdown that agents write, as mail programs show it: no pictures, no scripts, styles only where they are needed.
import { type Block, type Inline, parseMarkdown } from '../../lib/text/markdown.ts'

const BORDER = 'style="border:1px solid #ccc;padding:4px 8px"'

export function markdownToHtml(text: string): string {
  return parseMarkdown(text, text.length).map(blockHtml).join('\n')
}

function blockHtml(block: Block): string {
  switch (block.kind) {
    case 'paragraph':
      return `<p>${inlinesHtml(block.children)}</p>`
    case 'heading':
      return `<h${block.level}>${inlinesHtml(block.children)}</h${block.level}>`
    case 'code':
      return `<pre><code>${escapeHtml(block.text)}</code></pre>`
    case 'quote':
      return `<blockquote>${block.children.map(blockHtml).join('')}</blockquote>`
    case 'list': {
      const items = block.items.map((item) => `<li>${item.map(blockHtml).join('')}</li>`).join('')
      return block.start === undefined ? `<ul>${items}</ul>` : `<ol start="${block.start}">${items}</ol>`
    }
    case 'table': {
      const row = (cells: readonly (readonly Inline[])[], tag: string): string =>
        `<tr>${cells.map((cell) => `<${tag} ${BORDER}>${inlinesHtml(cell)}</${tag}>`).join('')}</tr>`
      const rows = [row(block.head, 'th'), ...block.rows.map((cells) => row(cells, 'td'))]
      return `<table style="border-collapse:collapse">${rows.join('')}</table>`
    }
    case 'footnote':
      return `<p><sup>${escapeHtml(block.label)}</sup> ${inlinesHtml(block.children)}</p>`
    case 'rule':
      return '<hr>'
  }
}

function inlinesHtml(inlines: readonly Inline[]): string {
  return inlines.map(inlineHtml).join('')
}

const TAGS = { strong: 'strong', emphasis: 'em', strike: 's' } as const

function inlineHtml(inline: Inline): string {
  switch (inline.kind) {
    case 'text':
      return escapeHtml(inline.text)
    case 'code':
      return `<code>${escapeHtml(inline.text)}</code>`
    case 'break':
      return '<br>'
    case 'checkbox':
      return inline.isChecked ? '☑ ' : '☐ '
    case 'reference':
      return `<sup>${escapeHtml(inline.label)}</sup>`
    case 'link':
      return `<a href="${escapeHtml(inline.href)}">${inlinesHtml(inline.children)}</a>`
    default:
      return `<${TAGS[inline.kind]}>${inlinesHtml(inline.children)}</${TAGS[inline.kind]}>`
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '')
}
