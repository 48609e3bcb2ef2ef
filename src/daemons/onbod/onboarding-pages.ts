// /onboard: a signed-in person without a grant asks for a folder and sees what happens to the request.
import type { Context, Hono } from 'hono'
import type { OnboardingRow } from '../../core/people/onboarding.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { onboardingResource } from '../../resources/onboarding.ts'
import { openPersonChat } from '../../resources/route-tokens.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { HOME_PATH } from '../http/sign-in.ts'
import { personForm, personPage, type SignedIn } from '../http/signed-in.ts'

const { own, request } = onboardingResource.verbs
const PATH = '/onboard'

export function mountOnboardingPages(app: Hono, host: InstanceHost): void {
  app.get(PATH, personPage(host, showRequest))
  app.post(
    PATH,
    personForm(host, async (c, person, fields) => {
      if (fields.get('action') === 'open') return redirectTo(await chatPath(person))
      const folder = fields.get('folder') ?? ''
      const { fault } = await callVerb(person.request, request, { folder })
      return fault === undefined ? redirectTo(PATH) : showRequest(c, person, { folder, fault })
    }),
  )
}

interface RefusedName {
  readonly folder: string
  readonly fault: string
}

async function showRequest(c: Context, person: SignedIn, refused?: RefusedName): Promise<Response> {
  const { row, ahead, has_grant } = await callVerb(person.request, own, {})
  const page = renderPage({
    title: 'Your folder',
    person: person.sub,
    main: has_grant ? accessGranted(person, row) : (describeStatus(row, ahead) ?? requestForm(person, refused)),
    ...(refused ? { status: 400 } : {}),
  })
  return sendPage(c, page)
}

function accessGranted({ csrf }: SignedIn, row: OnboardingRow | undefined): Html {
  if (row?.status !== 'approved')
    return html`<p>You have access to a folder.</p>
<p><a class="button primary wide" href="${HOME_PATH}">Continue</a></p>`
  return html`<p>You are in: <code>${row.folder ?? ''}</code> is your folder.</p>
<form method="post" action="${PATH}"><input type="hidden" name="csrf" value="${csrf}">
<button class="primary wide" name="action" value="open" autofocus>Continue</button></form>`
}

/** The chat with the folder that the person was admitted to. */
async function chatPath(person: SignedIn): Promise<string> {
  const { row } = await callVerb(person.request, own, {})
  return row?.status === 'approved' && row.folder !== undefined ? openPersonChat(person.request, row.folder) : HOME_PATH
}

/** Undefined if the person can ask for a folder. */
function describeStatus(row: OnboardingRow | undefined, ahead: number): Html | undefined {
  if (row?.status === 'refused') return html`<p>Your request for a folder was refused.</p>`
  if (row?.status === 'approved')
    return html`<p>You were admitted, but your access was removed since. Ask the operator of this server.</p>`
  if (row?.status !== 'queued') return undefined
  const wait =
    row.gate === undefined ? 'An operator of this server decides.' : `You are number ${ahead + 1} in the queue.`
  return html`<p>Your request for the folder <code>${row.folder ?? ''}</code> is waiting. ${wait}</p>
<p class="hint">Reload this page to see whether it was decided.</p>`
}

function requestForm({ csrf }: SignedIn, refused: RefusedName | undefined): Html {
  return html`<p>You have no folder on this server yet. Choose a name to ask for one.</p>
<form method="post" action="${PATH}"><input type="hidden" name="csrf" value="${csrf}">
<label for="folder">Name of the folder</label>
<input id="folder" name="folder" value="${refused?.folder ?? ''}" maxlength="255" autocomplete="off" autocapitalize="none" spellcheck="false" required autofocus>
${refused ? html`<p class="fault" role="alert">${refused.fault}</p>` : EMPTY_HTML}
<button class="primary wide">Ask for it</button></form>`
}
