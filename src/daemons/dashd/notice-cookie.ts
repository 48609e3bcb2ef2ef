// A sentence about what a form has done, which the next page shows once.
import type { Context } from 'hono'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { formatCookie, isSecure, readCookie } from '../http/session-cookie.ts'
import type { SignedIn } from '../http/signed-in.ts'

function noticeCookieName(host: InstanceHost): string {
  return isSecure(host) ? '__Secure-svc_notice' : `svc_notice_${host.instance}`
}

const NOTICE_PURPOSE = 'dash notice'

/** What was done by a form, for the page that follows. Sealed, so that no other page can put words here. */
export function noticeCookie(host: InstanceHost, { session }: SignedIn, text: string): string {
  const sealed = Buffer.from(host.keyring.seal(text, `${NOTICE_PURPOSE} ${session}`)).toString('base64url')
  return formatCookie(host, noticeCookieName(host), sealed, { maxAgeS: 60, path: '/dash' })
}

/** The notice of the last form, with the cookie that deletes it. */
export function takeNotice(host: InstanceHost, c: Context, { session }: SignedIn) {
  const name = noticeCookieName(host)
  const sealed = readCookie(c.req.header('Cookie'), name)
  if (sealed === undefined) return undefined
  const cookie = formatCookie(host, name, '', { maxAgeS: 0, path: '/dash' })
  try {
    return {
      text: host.keyring.open(Buffer.from(sealed, 'base64url'), `${NOTICE_PURPOSE} ${session}`).toString(),
      cookie,
    }
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}
