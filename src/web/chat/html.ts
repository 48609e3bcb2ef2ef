// HTML templates: values are escaped unless they are `Html`.

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escapeHtml(text: string): string {
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

/** Markup from this program that must not be escaped, such as a style or a script. */
export const trustedHtml = (text: string): Html => new Html(text)

export const EMPTY_HTML = new Html('')
