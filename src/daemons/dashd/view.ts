// Creates the view of a request: the person's rights, verbs with them, and forms that return to the page.
import type { Context } from 'hono'
import { principalOf } from '../../core/access/caller.ts'
import { administeredScopes, isOperator as isOperatorOf } from '../../core/access/policy.ts'
import { parseQueryString } from '../../faces/text-input.ts'
import type { Refusal } from '../../lib/refusal.ts'
import { subjectOf } from '../../registry/authorization.ts'
import { callVerb, checkCalls } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { withQuery } from '../../web/dash/filter-bar.ts'
import { type FormField, renderButton, renderForm } from '../../web/dash/form.ts'
import { copyText, notice } from '../../web/dash/parts.ts'
import { renderTable, renderTableLinks, type TableData } from '../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../web/html.ts'
import { toSentence } from '../../web/text/wording.ts'
import type { DaemonContext } from '../daemon.ts'
import { readCookie } from '../http/session-cookie.ts'
import type { SignedIn } from '../http/signed-in.ts'
import { placeFaults, withoutCommands, withoutVerb } from './field-faults.ts'
import { formNameOf } from './form-fields.ts'
import type { PageView } from './page.ts'

/** Rows of a page that a person chooses from; the choice is remembered. */
export const ROWS_CHOICES = [50, 100, 200] as const
export const ROWS_COOKIE = 'svc_rows'
const LIMIT = ROWS_CHOICES[0]
const LIMIT_MAX = 1000

/** A form that was refused. */
export interface RefusedForm {
  readonly form: string
  readonly refusal: Refusal
  /** What was typed, by name in the form. */
  readonly values: Readonly<Record<string, string>>
  /** Called when the form is shown, with the fault in the words of the form. */
  onShown(text: string): void
}

export interface ViewOptions {
  readonly daemon: DaemonContext
  readonly c: Context
  readonly person: SignedIn
  readonly refused?: RefusedForm | undefined
  /** Key of the form that is carried out; each change of the action has its own. */
  readonly formKey?: string | undefined
  /** In place of those of the URL. */
  readonly query?: Readonly<Record<string, string>> | undefined
}

export async function createView(options: ViewOptions): Promise<PageView> {
  const { daemon, c, person, refused, formKey } = options
  const { host } = daemon
  const { pathname: path, search } = new URL(c.req.url)
  const query = options.query ?? parseQueryString(search)
  let changes = 0
  const lists = new Map<string, TableData<never>>()
  const url: PageView['url'] = (changed = {}) =>
    withQuery(path, { ...query, after: undefined, format: undefined, list: undefined, ...changed })
  const downloads: PageView['downloads'] = (data) => {
    lists.set(data.id, data as unknown as TableData<never>)
    const linkTo = (format: string): string => url({ format, list: data.id })
    return data.rows.length === 0 ? EMPTY_HTML : renderTableLinks({ csv: linkTo('csv'), json: linkTo('json') })
  }
  const rights = await readRights(host, person)
  const command: PageView['command'] = (text) => (rights.isOperator ? copyText(host.showCommands(text)) : EMPTY_HTML)
  const explain: PageView['explain'] = (refusal) =>
    withoutCommands(refusal, rights.isOperator ? host.showCommands : undefined)
  const hidden = (action: string, form: string, fixed: Readonly<Record<string, string>>): Record<string, string> => ({
    ...fixed,
    csrf: person.csrf,
    action,
    form,
    form_key: Buffer.from(host.random.bytes(12)).toString('base64url'),
  })
  return {
    host,
    daemon,
    c,
    person,
    ...rights,
    nowMs: host.clock.now(),
    path,
    query,
    params: c.req.param() as Record<string, string>,
    limit: limitOf(query.limit ?? readCookie(c.req.header('Cookie'), ROWS_COOKIE)),
    call: (verb, input) => {
      const isChange = formKey !== undefined && !verb.isReadOnly
      const key = isChange ? { formKey: `${person.session} ${formKey} ${changes++}` } : {}
      return callVerb({ ...person.request, ...key }, verb, input)
    },
    may: async (verb, input) => (await checkCalls(person.request, [{ verb, input }]))[0] ?? false,
    mayEach: (verb, inputs) =>
      checkCalls(
        person.request,
        inputs.map((input) => ({ verb, input })),
      ),
    form: ({ action, fields, submit, fixed = {}, id = action, isDangerous = false }) => {
      const form = {
        id: `form-${id}`,
        to: withQuery(path, query),
        fields: fields.map((field) => ({ ...field, name: formNameOf(field.name) })),
        hidden: hidden(action, id, { ...fixed, ...secretNames(fields) }),
        submit,
        isDangerous,
      }
      if (refused?.form !== id) return renderForm(form)
      const { ofFields, rest, text } = placeFaults(explain(refused.refusal), fields, refused.values)
      refused.onShown(text)
      return renderForm({
        ...form,
        fields: fields.map((field) => ({ ...field, name: formNameOf(field.name), fault: ofFields.get(field.name) })),
        fault: rest.length === 0 ? undefined : notice('fault', rest.join(' ')),
        values: refused.values,
      })
    },
    button: ({ action, fixed = {}, ...button }) =>
      renderButton({ ...button, to: withQuery(path, query), hidden: hidden(action, action, fixed) }),
    explain,
    command,
    inTerminal: (text, label = 'In a terminal') =>
      rights.isOperator ? html`<p class="hint">${label}: ${command(text)}</p>` : EMPTY_HTML,
    lists,
    list: (table) => html`${renderTable(table)}${downloads(table)}`,
    downloads,
    url,
  }
}

/** For the page that keeps a form after the session has ended. */
function secretNames(fields: readonly FormField[]): Record<string, string> {
  const names = fields.filter(({ kind }) => kind === 'password').map(({ name }) => name)
  return names.length === 0 ? {} : { secrets: names.join(' ') }
}

export function faultText({ message, hint }: Refusal): string {
  const sentence = toSentence(withoutVerb(message))
  return hint === undefined ? sentence : `${sentence} ${toSentence(hint)}`
}

export function faultNotice(refusal: Refusal) {
  return notice('fault', faultText(refusal))
}

async function readRights(
  { engine, policies }: InstanceHost,
  { request: { caller } }: SignedIn,
): Promise<Pick<PageView, 'isOperator' | 'isAdministrator'>> {
  const policy = await engine.read((tx) => policies.read(tx))
  const isOperator = isOperatorOf(policy, principalOf(caller))
  return { isOperator, isAdministrator: isOperator || administeredScopes(policy, subjectOf(caller)).length > 0 }
}

function limitOf(text: string | undefined): number {
  const limit = Number(text ?? LIMIT)
  return Number.isInteger(limit) && limit > 0 && limit <= LIMIT_MAX ? limit : LIMIT
}
