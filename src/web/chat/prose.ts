// Renders parsed Markdown as HTML for browsers without script, like `../browser/prose.ts` does as DOM nodes.

import { type Alignment, type Block, type Inline, parseMarkdown } from '../../lib/text/markdown.ts'
import { EMPTY_HTML, type Html, html, trustedHtml } from '../html.ts'
import type { Texts } from '../texts/en.ts'

export function proseHtml(text: string, texts: Texts, max?: number): Html[] {
  return parseMarkdown(text, max).map((block) => blockHtml(block, texts))
}

const AUTO = trustedHtml(' dir="auto"')

/** Blocks in a list or quote inherit its text direction. */
function blockHtml(block: Block, texts: Texts, dir: Html = AUTO): Html {
  const inlineHtml = (inline: Inline): Html => inlineOf(inline, texts)
  const innerHtml = (inner: Block): Html => blockHtml(inner, texts, EMPTY_HTML)
  switch (block.kind) {
    case 'paragraph':
      return html`<p${dir}>${block.children.map(inlineHtml)}</p>`
    case 'heading': {
      const tag = trustedHtml(`h${Math.min(block.level + 1, 6)}`)
      return html`<${tag}${dir}>${block.children.map(inlineHtml)}</${tag}>`
    }
    case 'code':
      return html`<pre dir="ltr"><code>${block.text}</code></pre>`
    case 'quote':
      return html`<blockquote${dir}>${block.children.map(innerHtml)}</blockquote>`
    case 'list': {
      const items = block.items.map((item) => html`<li>${item.map(innerHtml)}</li>`)
      return block.start === undefined
        ? html`<ul${dir}>${items}</ul>`
        : html`<ol${dir} start="${block.start}">${items}</ol>`
    }
    case 'table': {
      const row = (cells: readonly (readonly Inline[])[], tag: Html): Html =>
        html`<tr>${cells.map((cell, at) => html`<${tag} dir="auto"${alignmentHtml(block.alignments[at])}>${cell.map(inlineHtml)}</${tag}>`)}</tr>`
      const body = block.rows.map((cells) => row(cells, trustedHtml('td')))
      return html`<div class="wide"><table><thead>${row(block.head, trustedHtml('th'))}</thead><tbody>${body}</tbody></table></div>`
    }
    case 'footnote':
      return html`<p${dir} class="footnote"><sup>${block.label}</sup> ${block.children.map(inlineHtml)}</p>`
    case 'rule':
      return html`<hr>`
  }
}

function alignmentHtml(alignment: Alignment | undefined): Html {
  return alignment === undefined ? EMPTY_HTML : html` class="align-${alignment}"`
}

function inlineOf(inline: Inline, texts: Texts): Html {
  const inlineHtml = (inner: Inline): Html => inlineOf(inner, texts)
  switch (inline.kind) {
    case 'text':
      return html`${inline.text}`
    case 'code':
      return html`<code>${inline.text}</code>`
    case 'break':
      return html`<br>`
    case 'checkbox':
      return inline.isChecked
        ? html`<input type="checkbox" disabled aria-label="${texts.done}" checked>`
        : html`<input type="checkbox" disabled aria-label="${texts.notDone}">`
    case 'reference':
      return html`<sup>${inline.label}</sup>`
    case 'strong':
      return html`<strong>${inline.children.map(inlineHtml)}</strong>`
    case 'emphasis':
      return html`<em>${inline.children.map(inlineHtml)}</em>`
    case 'strike':
      return html`<s>${inline.children.map(inlineHtml)}</s>`
    case 'link':
      return html`<a href="${inline.href}" target="_blank" rel="noreferrer noopener nofollow">${inline.children.map(inlineHtml)}</a>`
  }
}
