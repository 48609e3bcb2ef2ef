// Carries out the forms of a page: checks them, asks for a confirmation, calls the verb, and shows what was done or refused.
import type { Context } from 'hono'
import { parseTextInput } from '../../faces/text-input.ts'
import { problemOf } from '../../lib/http/http.ts'
import { publicRefusal, Refusal, refuse } from '../../lib/refusal.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { renderForm } from '../../web/dash/form.ts'
import { buttonLink, notice } from '../../web/dash/parts.ts'
import { EMPTY_HTML, html } from '../../web/html.ts'
import { type FormFields, type FormFile, mustBeOwnOriginForm, readFormWithFiles } from '../http/form-request.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { isFormToken } from '../http/session-cookie.ts'
import type { SignedIn } from '../http/signed-in.ts'
import { FORM_MAX, inputValues } from './form-fields.ts'
import { noticeCookie } from './notice-cookie.ts'
import {
  type ActionRedirect,
  type DashPage,
  isPageShown,
  type PageAction,
  type PageContent,
  type PageView,
} from './page.ts'
import { type PagesContext, renderDashPage } from './page-rendering.ts'
import { gonePage, hiddenPage } from './refused-pages.ts'
import { createView, faultText, type RefusedForm } from './view.ts'

export async function submitForm(
  context: PagesContext,
  c: Context,
  page: DashPage,
  person: SignedIn,
): Promise<Response> {
  const { daemon } = context
  const before = await createView({ daemon, c, person })
  if (!isPageShown(page, before)) throw hiddenPage()
  const actions = page.actionsOf?.(before) ?? page.actions ?? {}
  const maxBytes = Math.max(FORM_MAX, ...Object.values(actions).map((one) => ('run' in one ? (one.maxBytes ?? 0) : 0)))
  mustBeOwnOriginForm(daemon.host, c)
  const { fields, files } = await readFormWithFiles(c, maxBytes)
  try {
    await page.beforeAction?.(before)
  } catch (error) {
    return gonePage(context, before, fields, error)
  }
  const name = fields.get('action') ?? ''
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined
  if (!action) refuse('invalid', 'this page has no such form', 'reload the page and try again')
  const values = inputValues(fields)
  const refused = (refusal: Refusal): Promise<Response> => {
    c.error = refusal
    const form = {
      form: fields.get('form') ?? name,
      refusal: publicRefusal(refusal),
      values: Object.fromEntries(fields),
    }
    return showRefusedForm(context, c, page, person, form)
  }
  if (!isFormToken(daemon.host, person.session, fields.get('csrf')))
    return refused(new Refusal('forbidden', 'this form has expired', 'nothing was changed; send it again'))
  if (action.confirm && fields.get('confirmed') !== 'yes')
    return sendPage(c, renderDashPage(context, before, page, confirmation(before, action, fields, values)))
  const view = await createView({ daemon, c, person, formKey: fields.get('form_key') })
  try {
    return await respondTo(context, page, view, await carryOut(view, action, { fields, files, values }))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refused(error)
  }
}

interface SentForm {
  readonly fields: FormFields
  readonly files: ReadonlyMap<string, FormFile>
  /** The fields without those that control the form. */
  readonly values: Readonly<Record<string, string>>
}

async function carryOut(
  view: PageView,
  action: PageAction,
  { fields, files, values }: SentForm,
): Promise<PageContent | ActionRedirect> {
  if ('run' in action) return action.run(view, fields, files)
  const input = formInput(action, values, new Set(fields.get('clears')?.split(' ')))
  const reply = await view.call(action.verb, input)
  // The types of reply and input are those of the verb, which the page knows.
  const told = [reply, input] as unknown as [never, never]
  const shown = action.page?.(...told)
  if (shown) return shown
  const done = typeof action.done === 'string' ? action.done : action.done(...told)
  return action.to ? { done, to: action.to(...told) } : { done }
}

/**
 * An empty field is not given, except to clear what is stored. Objects and lists are typed as JSON; a field that takes text gets it
 * unchanged.
 */
function formInput(
  { verb }: Extract<PageAction, { verb: unknown }>,
  values: Readonly<Record<string, string>>,
  clears: ReadonlySet<string>,
): object {
  const given = Object.fromEntries(
    Object.entries(values)
      .filter(([name, value]) => value !== '' || clears.has(name))
      // Browsers send line breaks as CR LF.
      .map(([name, value]) => [name, value.replaceAll('\r\n', '\n')]),
  )
  const input = parseTextInput(verb.input, given)
  const takes = (name: string, value: unknown): boolean => verb.input.shape[name]?.safeParse(value).success ?? false
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => {
      const parsed = typeof value === 'string' && /^\s*[[{]/.test(value) ? tryParseJson(value) : undefined
      const isBetter = (isObject(parsed) || Array.isArray(parsed)) && !takes(name, value)
      return [name, isBetter ? parsed : value]
    }),
  )
}

async function respondTo(
  context: PagesContext,
  page: DashPage,
  view: PageView,
  outcome: PageContent | ActionRedirect,
): Promise<Response> {
  const { c } = view
  if ('title' in outcome) return sendPage(c, renderDashPage(context, view, page, outcome))
  return redirectTo(outcome.to ?? view.url({ after: view.query.after }), {
    'Set-Cookie': noticeCookie(context.daemon.host, view.person, outcome.done),
  })
}

async function showRefusedForm(
  context: PagesContext,
  c: Context,
  page: DashPage,
  person: SignedIn,
  form: Omit<RefusedForm, 'onShown'>,
): Promise<Response> {
  const { problem } = problemOf(form.refusal)
  // A button has no place for a fault, so it is always at the top, too.
  let text: string | undefined
  const refused = {
    ...form,
    onShown: (inForm: string) => {
      text = inForm
    },
  }
  const view = await createView({ daemon: context.daemon, c, person, refused })
  let content: PageContent
  try {
    content = await page.show(view)
  } catch (error) {
    return gonePage(context, view, new Map(Object.entries(form.values)), error)
  }
  const shown = {
    ...content,
    isLive: false,
    top: html`${notice('fault', text ?? faultText(view.explain(form.refusal)))}${content.top ?? EMPTY_HTML}`,
  }
  return sendPage(c, { ...renderDashPage(context, view, page, shown), status: problem.status })
}

function confirmation(
  view: PageView,
  action: PageAction,
  fields: FormFields,
  values: Readonly<Record<string, string>>,
): PageContent {
  const form = renderForm({
    id: 'confirm',
    to: view.url(),
    fields: [],
    hidden: { ...Object.fromEntries(fields), confirmed: 'yes' },
    submit: 'Yes, do it',
    isDangerous: true,
  })
  return {
    title: 'Are you sure?',
    main: html`<p>${action.confirm?.(values) ?? ''}</p><div class="choice">${form}${buttonLink(view.url(), 'Cancel')}</div>`,
  }
}
