// HTML templates: values are escaped unless they are `Html`.
import { raw, html as template } from 'hono/html'
import { ownPath } from '../lib/http/own-path.ts'
import { safeUrl } from '../lib/text/markdown.ts'

export type Html = ReturnType<typeof raw>

type Part = Html | string | number | readonly Html[]

/** html`<p>${text}</p>` */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  // The template is a promise only if a part is one.
  return template(strings, ...parts) as Html
}

/** Markup from this program that must not be escaped, such as a style or a script. */
export const trustedHtml = (text: string): Html => raw(text)

export const EMPTY_HTML: Html = raw('')

/** For every link whose target comes from data: templates escape it, but do not stop `javascript:`. */
export function linkTarget(text: string): string {
  const [, path = text, place = ''] = /^([^#]*)(#[\w-]+)$/.exec(text) ?? []
  // A place on the same page.
  if (path === '') return place
  const own = ownPath(path)
  return own === undefined ? (safeUrl(text) ?? '#') : `${own}${place}`
}
