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

/** A form of a page, with what a browser sends if nothing is typed. */
export interface PageForm {
  readonly id: string
  readonly to: string
  readonly fields: Readonly<Record<string, string>>
}

export function readForms(page: string): PageForm[] {
  return [...page.matchAll(/<form (?:id="([^"]*)" )?[^>]*action="([^"]*)"[^>]*>(.*?)<\/form>/gs)].map(
    ([, id = '', to = '', content = '']) => ({ id, to: plain(to), fields: Object.fromEntries(fieldsOf(content)) }),
  )
}

export function mustReadForm(page: string, isWanted: (form: PageForm) => boolean, remark: string): PageForm {
  return readForms(page).find(isWanted) ?? assert.fail(`${remark}: no such form`)
}

function fieldsOf(form: string): [string, string][] {
  const inputs = [...form.matchAll(/<input ([^>]*)>/g)]
    .map(([, tag = '']) => tag)
    .filter((tag) => attribute(tag, 'type') !== 'checkbox')
    .map((tag): [string, string] => [attribute(tag, 'name'), attribute(tag, 'value')])
  const texts = [...form.matchAll(/<textarea ([^>]*)>\n?(.*?)<\/textarea>/gs)].map(
    ([, tag = '', text = '']): [string, string] => [attribute(tag, 'name'), plain(text)],
  )
  const selects = [...form.matchAll(/<select ([^>]*)>(.*?)<\/select>/gs)].map(
    ([, tag = '', options = '']): [string, string] => {
      const chosen = /<option value="([^"]*)" selected/.exec(options) ?? /<option value="([^"]*)"/.exec(options)
      return [attribute(tag, 'name'), plain(chosen?.[1] ?? '')]
    },
  )
  return [...inputs, ...texts, ...selects]
}

function attribute(tag: string, name: string): string {
  return plain(new RegExp(`(?:^| )${name}="([^"]*)"`).exec(tag)?.[1] ?? '')
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', '#39': "'", amp: '&' }

function plain(text: string): string {
  return text.replace(/&(lt|gt|quot|#39|amp);/g, (entity, name: string) => ENTITIES[name] ?? entity)
}
