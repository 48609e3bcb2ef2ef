// The part of the sign-in page for passkeys.
import { EMPTY_HTML, type Html } from '../../web/chat/html.ts'

export function passkeySection(): Html {
  return EMPTY_HTML
}
