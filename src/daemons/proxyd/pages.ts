// Pages that proxyd serves itself: the root as JSON or HTML, robots.txt, and error pages for browsers.
import type { Problem } from '../../lib/http/http.ts'
import { EMPTY_HTML, type Html, html } from '../../web/chat/html.ts'
import { DAEMON_NAMES } from '../settings.ts'

export const ROBOTS = 'User-agent: *\nDisallow: /chat/\nDisallow: /hook/\n'

export const ROOT_DOCUMENT = {
  service: 'svc',
  about: 'hosts agents; messages reach them through chats and links',
  health: '/health',
  descriptions: Object.fromEntries(DAEMON_NAMES.map((name) => [name, `/openapi/${name}.json`])),
}

export const ROOT_PAGE = page(
  'svc',
  html`<p>Agents live here. To talk to one, open the chat link that you were given.</p>
<p>Programs find descriptions of the interface at
${Object.values(ROOT_DOCUMENT.descriptions).map((path) => html`<a href="${path}">${path}</a> `)}</p>`,
)

export const PAGE_TYPE = 'text/html; charset=utf-8'

/** The content of the problem document as a page. See docs/decisions.md#http-errors. */
export function plainProblemPage({ title, detail, hint }: Problem): string {
  return page(title, html`<p>${detail}</p>${hint === undefined ? EMPTY_HTML : html`<p>${hint}</p>`}`)
}

function page(title: string, content: Html): string {
  return html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<h1>${title}</h1>
${content}
</html>
`.text
}
