// HTML as text, for pages that are made here: whatever is put into a template is escaped, unless it is HTML already.

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character)
}

type Part = Html | string | number | readonly Html[]

/** html`<p>${text}</p>` */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  const texts = parts.map((part) => {
    if (part instanceof Html) return part.text
    return typeof part === 'object' ? part.map(({ text }) => text).join('') : escapeHtml(String(part))
  })
  return new Html(String.raw({ raw: strings }, ...texts))
}

/** Text of ours that goes in as it is: a style, a script. */
export const trustedHtml = (text: string): Html => new Html(text)

export const EMPTY_HTML = new Html('')
