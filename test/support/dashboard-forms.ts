// Sends forms of the dashboard as a browser without script does.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { cookiesOf, type SignedInBrowser } from './sign-in.ts'

/** `fields` has the action. Every call is a form of its own. */
export function postForm(browser: SignedInBrowser, path: string, fields: Record<string, string>): Promise<Response> {
  return browser.post(path, { form: fields.action ?? '', form_key: randomUUID(), ...fields })
}

/** Sends a form that succeeds, and returns the page that follows, with its notice. */
export async function followForm(
  browser: SignedInBrowser,
  path: string,
  fields: Record<string, string>,
): Promise<string> {
  const response = await postForm(browser, path, fields)
  assert.equal(response.status, 303, response.status === 303 ? '' : await response.text())
  const next = await browser.get(response.headers.get('Location') ?? '', {
    Cookie: `${browser.cookie}; ${cookiesOf(response)}`,
  })
  return next.text()
}
