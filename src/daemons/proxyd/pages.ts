// Pages that proxyd serves itself: the front page, its JSON for programs, robots.txt, and error pages for browsers.
import type { Problem } from '../../lib/http/http.ts'
import type { HtmlPage } from '../../web/chat/page.ts'
import { html } from '../../web/html.ts'
import { messagePage, renderPage } from '../../web/pages/page.ts'
import { DAEMON_NAMES } from '../settings.ts'

export const ROBOTS = 'User-agent: *\nDisallow: /chat/\nDisallow: /hook/\nDisallow: /auth/\nDisallow: /invite/\n'

export const ROOT_DOCUMENT = {
  service: 'svc',
  about: 'hosts agents; messages reach them through chats and links',
  health: '/health',
  descriptions: Object.fromEntries(DAEMON_NAMES.map((name) => [name, `/openapi/${name}.json`])),
}

/** `person`: the sub of a signed-in visitor. */
export function frontPage(person: string | undefined): HtmlPage {
  const way =
    person === undefined
      ? html`<p>Open the chat link that you were given, or sign in to reach your agents.</p>
<p><a class="button primary" href="/auth/sign-in">Sign in</a></p>`
      : html`<p>You are signed in as <code>${person}</code>.</p>
<p><a class="button primary" href="/auth/me">Your account</a></p>`
  return renderPage({
    title: 'Agents live here',
    person,
    main: html`<p class="lead">This server hosts agents. You talk to them in chats; programs reach them through links and an API.</p>
${way}
<details><summary>For programs</summary>
<p>Descriptions of the API, in OpenAPI:</p>
<ul class="columns">${Object.entries(ROOT_DOCUMENT.descriptions).map(([name, path]) => html`<li><a href="${path}">${name}</a></li>`)}</ul>
</details>`,
  })
}

/** The content of the problem document as a page. See docs/decisions.md#http-errors. */
export function problemPage({ title, detail: text, hint, status }: Problem): HtmlPage {
  return messagePage({ title, text, hint, status })
}
