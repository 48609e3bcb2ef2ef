// Where the answers of a webhook are sent besides its own chat: to a chat, or to the URL of a program. See
// docs/decisions.md#answers-of-webhooks.
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { checkedText, Jid } from '../values.ts'
import { hashToken, isTokenText } from './link-token.ts'
import { routeTokens } from './route-tokens.ts'
import { webHosts } from './web-hosts.ts'

const URL_LENGTH_MAX = 2048
/** Also of other schemes, which would be taken for platforms. */
const IS_URL = /^(https?:|[^:]*:\/\/)/i

/** Error of answers whose link no longer exists. */
export const LINK_REVOKED = 'its link is revoked'

export const AnswerTarget = checkedText(answerTargetFault)

function answerTargetFault(value: string): string | undefined {
  if (IS_URL.test(value)) return urlFault(value)
  if (!Jid.safeParse(value).success) return 'must be an https URL or a chat such as telegram:group/1'
  return isLinkChat(value) ? 'must not be the chat of a link: links cannot answer to each other' : undefined
}

/** `URL` would remove line breaks and tabs, so the text must have none. */
function urlFault(value: string): string | undefined {
  if (value.length > URL_LENGTH_MAX) return `is longer than ${URL_LENGTH_MAX} characters`
  const url = /^https:\/\/[\x21-\x7e]+$/.test(value) ? URL.parse(value) : undefined
  if (!url) return 'must be a URL that starts with https://'
  if (url.username !== '' || url.password !== '') return 'must not have a user name or password'
  return url.hash === '' && !value.endsWith('#') ? undefined : 'must not have a fragment'
}

/**
 * Why the URL must not get answers: it is a link of this instance, and its agent would answer itself without end. A token is
 * recognized at any host, because the instance may have names that it does not know.
 */
export async function ownLinkFault(
  tx: Tx,
  webBase: string,
  { host, hostname, pathname }: URL,
): Promise<string | undefined> {
  const segments = pathname.split('/').map(unescapeSegment)
  const isLinkPath = segments[1] === 'hook' || segments[1] === 'chat'
  const isOwn =
    (isLinkPath &&
      (host === new URL(webBase).host || (await isWebHost(tx, host)) || (await isWebHost(tx, hostname)))) ||
    (await hasToken(tx, segments))
  return isOwn ? 'it is a link of this instance, and links cannot answer to each other' : undefined
}

/** Ends the deliveries of earlier links of a JID, because a new link may name another receiver. Some may have arrived. */
export async function endEarlierAnswers(tx: Tx, jid: string, now: string): Promise<void> {
  await execute(
    tx,
    `update outbox set state = case when state = 'sending' then 'unknown' else 'failed' end, error = $2,
       leased_until = 0, fence = fence + 1, updated_at = $3
     where jid = $1 and state in ('pending', 'sending')`,
    [jid, LINK_REVOKED, now],
  )
}

async function isWebHost(tx: Tx, hostname: string): Promise<boolean> {
  return (await webHosts.find(tx, { hostname })) !== undefined
}

async function hasToken(tx: Tx, segments: readonly string[]): Promise<boolean> {
  for (const segment of segments)
    if (isTokenText(segment) && (await routeTokens.find(tx, { token_hash: hashToken(segment) }))) return true
  return false
}

function unescapeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
