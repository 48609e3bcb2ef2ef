// The part of a page that signs in with a passkey. Hidden until the script has found that the browser supports passkeys.
import type { InstanceHost } from '../../registry/context.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { passkeyAddress } from './passkey-address.ts'

/** A page with a passkey section must name this script (`scripts` of renderPage). */
export const PASSKEY_SCRIPT = '/auth/passkey.js'

interface SectionOptions {
  /** Where to go afterwards. */
  readonly next?: string | undefined
  readonly label?: string
}

/** Empty where WEB_HOST allows no passkeys: the page about passkeys says why. */
export function passkeySection(host: Pick<InstanceHost, 'webBase'>, options: SectionOptions = {}): Html {
  const { next, label = 'Sign in with a passkey' } = options
  const { origin, fault } = passkeyAddress(host)
  if (fault !== undefined) return EMPTY_HTML
  return html`<div class="passkey" data-passkey="sign-in" data-origin="${origin}" hidden>
<form${next === undefined ? EMPTY_HTML : html` data-next="${next}"`}><button class="primary wide">${label}</button></form>
${passkeyStatus(origin)}
</div>`
}

/** Filled by the script: errors, and the address to open instead of this one. */
export function passkeyStatus(origin: string): Html {
  return html`<p class="fault" role="alert" hidden></p>
<p class="notice elsewhere" hidden>Passkeys work only at <a href="${origin}">${origin}</a>. Open this page there.</p>`
}
