// The page for a form that was sent after the session had ended: it keeps what was typed until the person has signed in again.
import type { HtmlPage } from '../../web/chat/page.ts'
import { html, linkTarget } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import type { FormFields } from '../http/form-request.ts'

/** The form is sent again with its old token, so the dashboard shows it once more before anything is changed. */
export function signedOutForm(url: string, fields: FormFields): HtmlPage {
  const { pathname, search } = new URL(url)
  const secrets = new Set(fields.get('secrets')?.split(' '))
  const kept = [...fields].filter(([name]) => !secrets.has(name) && name !== 'confirmed')
  const inputs = kept.map(([name, value]) => html`<textarea name="${name}" hidden>${`\n${value}`}</textarea>`)
  const to = linkTarget(`${pathname}${search}`)
  return renderPage({
    title: 'Your session has ended',
    status: 401,
    main: html`<p>Nothing was changed, and this page keeps what you typed, except passwords.</p><p><a href="${`/auth/sign-in?next=${encodeURIComponent('/auth/me')}`}" target="_blank">Sign in</a> in another tab, then continue here.</p><form method="post" action="${to}">${inputs}<button>Continue</button></form>`,
  })
}
