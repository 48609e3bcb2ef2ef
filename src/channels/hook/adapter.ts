// The channel of webhooks. Their chat is like that of every link: a saved message is delivered, unless its link names a URL for
// answers. Then it is also posted there, signed as in Standard Webhooks. See docs/decisions.md#answers-of-webhooks.
import { type Channel, ChannelError, type DeliveryReceipt } from '../../core/delivery/channel.ts'
import { outbox } from '../../core/delivery/outbox.ts'
import { hintFor } from '../../core/delivery/platforms.ts'
import { readFilesOfMessages, showFile } from '../../core/files/chat-files.ts'
import { LINK_REVOKED, ownLinkFault } from '../../core/links/answer-targets.ts'
import { answerContext, isAnswerUrl, routeTokens } from '../../core/links/route-tokens.ts'
import { signStandard } from '../../core/links/webhook-signatures.ts'
import { listAnsweredIds } from '../../core/messages/inbox.ts'
import { decodeContent, messages } from '../../core/messages/messages.ts'
import { sendAdapterRequest, toRetryAfterMs } from '../adapter-request.ts'
import type { BuiltInContext } from '../built-in-context.ts'

/** With the time to connect, much shorter than DELIVERY_LEASE_MS. */
const RESPONSE_TIMEOUT_MS = 15_000

type AnswerContext = Pick<BuiltInContext, 'engine' | 'clock' | 'keyring' | 'webBase' | 'answerAddresses' | 'stopping'>

export function openChannel(context: AnswerContext, timeoutMs = RESPONSE_TIMEOUT_MS): Channel {
  const post = (out: { readonly jid: string; readonly key: string }): Promise<DeliveryReceipt> =>
    postAnswer(context, out, timeoutMs)
  return {
    name: 'hook',
    platform: 'hook',
    isInternal: true,
    // Receivers know a repeat by its `webhook-id`.
    isIdempotent: true,
    actions: { send: post, send_file: post, send_voice: post },
    hint: (action) => hintFor('web', action),
  }
}

interface Answer {
  readonly url: URL
  readonly secret: Uint8Array
  readonly body: Buffer
}

async function postAnswer(
  context: AnswerContext,
  { jid, key }: { readonly jid: string; readonly key: string },
  timeoutMs: number,
): Promise<DeliveryReceipt> {
  const { url, secret, body } = await readAnswer(context, jid, key)
  const seconds = Math.floor(context.clock.now() / 1000)
  const { status, headers } = await sendAdapterRequest({
    method: 'POST',
    url,
    headers: {
      'Content-Type': 'application/json',
      'Content-Length': String(body.length),
      'User-Agent': 'svc',
      'webhook-id': key,
      'webhook-timestamp': String(seconds),
      'webhook-signature': signStandard(secret, key, seconds, body),
    },
    body,
    timeoutMs,
    bodyMaxBytes: 0,
    addresses: await context.answerAddresses(),
    signal: context.stopping,
  })
  if (status >= 200 && status < 300) return {}
  throw new ChannelError(
    status === 410 ? 'permanent' : 'transient',
    `${url.origin} answers ${status}${noteOf(status)}`,
    toRetryAfterMs(headers['retry-after']),
  )
}

function noteOf(status: number): string {
  if (status === 410) return ': it accepts no more answers'
  return status >= 300 && status < 400 ? ': redirects are not followed' : ''
}

/** Read for each attempt: the link may be revoked, or its URL may have become one of this instance. */
function readAnswer({ engine, keyring, webBase }: AnswerContext, jid: string, id: string): Promise<Answer> {
  return engine.read(async (tx) => {
    const links = await routeTokens.list(tx, { jid })
    const link = links.find(({ answer_to = '' }) => isAnswerUrl(answer_to))
    const row = await outbox.find(tx, { id })
    const message = row && (await messages.find(tx, { seq: row.message_seq }))
    if (!link?.answer_to || !link.answer_secret) throw new ChannelError('permanent', LINK_REVOKED)
    if (!row || !message) throw new ChannelError('permanent', 'the message no longer exists')
    const url = new URL(link.answer_to)
    const fault = await ownLinkFault(tx, webBase, url)
    if (fault !== undefined) throw new ChannelError('permanent', `${url.origin} gets no answers: ${fault}`)
    const { folder, turn_id = '', topic } = row
    const files = (await readFilesOfMessages(tx, [message.seq])).get(message.seq)
    const event = {
      // The instance says in place of the agent that a turn failed.
      type: folder === undefined ? 'turn.failed' : 'turn.answered',
      timestamp: message.created_at,
      data: {
        link: jid,
        folder: folder ?? message.target_folder,
        turn_id,
        message_ids: await listAnsweredIds(tx, turn_id, jid),
        ...(topic === '' ? {} : { topic }),
        content: decodeContent(message.content),
        ...(message.is_partial ? { partial: true } : {}),
        ...(files ? { files: files.map(showFile) } : {}),
      },
    }
    const secret = keyring.open(link.answer_secret, answerContext(link.token_hash))
    return { url, secret, body: Buffer.from(JSON.stringify(event)) }
  })
}
