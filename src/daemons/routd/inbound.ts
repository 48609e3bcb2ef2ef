// What an adapter tells of a message that came in. The words in brackets are those of the protocol.
import { z } from 'zod'
import { type Arriving, arrive, reactionVerb } from '../../core/arrival.ts'
import { platformOf } from '../../core/channel.ts'
import { channelRegistrations, ownedPrefix } from '../../core/channel-registrations.ts'
import { mustHavePlatform } from '../../core/channel-secrets.ts'
import { Topic } from '../../core/messages.ts'
import { isOwnVerb, platformFault, senderFault } from '../../core/namespaces.ts'
import { speakingOf } from '../../core/rounds.ts'
import { Jid, line, prose, text } from '../../core/values.ts'
import { timestamp } from '../../lib/clock.ts'
import { sentences } from '../../lib/parse.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { type ChannelCaller, isOwn, mustStillHold, secretNameOf } from './channel-caller.ts'

/** Members that are there but empty are as good as absent: adapters fill in what their platform tells. */
const maybe = <S extends z.ZodType>(schema: S) =>
  z.preprocess((value) => (value === '' || value === null ? undefined : value), schema.optional())

const Attachment = z.strictObject({
  mime: maybe(line(256)),
  filename: maybe(line(256)),
  url: maybe(z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).max(4096)),
  data: maybe(z.base64({ error: 'must be base64' })),
})

const Verb = text((value) => {
  if (!/^[a-z][a-z0-9_-]{0,31}$/.test(value)) return 'must be a word such as message, mention or join'
  return isOwnVerb(value) ? `must not be ${value}, which only svc gives` : undefined
})

const CONTENT_MAX = 262_144

export const InboundBody = z.strictObject({
  chat_jid: Jid,
  content: maybe(prose(CONTENT_MAX)),
  id: maybe(line(512)),
  sender: maybe(line(256)),
  sender_name: maybe(line(256)),
  timestamp: maybe(z.number().min(0).max(8.64e12, 'must be seconds since 1970')),
  reply_to: maybe(line(512)),
  reply_to_text: maybe(prose(65_536)),
  reply_to_sender: maybe(line(256)),
  forwarded_from: maybe(line(512)),
  topic: maybe(Topic),
  verb: maybe(Verb),
  reaction: maybe(line(64)),
  is_group: maybe(z.boolean()),
  is_from_me: maybe(z.boolean()),
  chat_name: maybe(line(256)),
  source: maybe(line(64)),
  link_context: maybe(prose(16_384)),
  attachments: maybe(z.array(Attachment).max(50)),
})
export type InboundBody = z.output<typeof InboundBody>

export interface Accepted {
  readonly ok: true
  /** The id that the platform gave, else ours. */
  readonly id?: string | undefined
  /** Ours. */
  readonly message_id?: string | undefined
  readonly duplicate?: true
  /** Why nothing was recorded. */
  readonly ignored?: string
}

/** A body that may be told; else a refusal, and nothing has changed. */
export function readInbound(raw: unknown): InboundBody {
  const read = InboundBody.safeParse(raw, { reportInput: true })
  if (!read.success) {
    const isMissing = read.error.issues.some(({ code, input }) => code === 'invalid_type' && input === undefined)
    refuse('invalid', `${sentences(read.error.issues)} (${isMissing ? 'missing_field' : 'bad_request'})`)
  }
  const { content, reaction, attachments } = read.data
  if (content === undefined && reaction === undefined && !attachments?.length)
    refuse('invalid', 'content is required (missing_field)')
  return read.data
}

/** Records it, unless it is here already or the agent's own. */
export async function acceptInbound(
  host: Host,
  caller: ChannelCaller,
  body: InboundBody,
  key: string | undefined,
): Promise<Accepted> {
  const { chat_jid: jid, sender = `anon:${platformOf(jid)}` } = body
  const fault = senderFault(sender, platformOf(jid))
  if (fault) refuse('invalid', `${fault} (sender_scheme_mismatch)`)
  const source = await host.engine.read(async (tx) => {
    await mustStillHold(tx, caller)
    return sourceOf(tx, caller, body)
  })
  const platform_id = idOf(body, source, key)
  const { reaction, timestamp: seconds, attachments } = body
  const arriving: Arriving = {
    jid,
    sender,
    source,
    platform_id,
    content: body.content ?? reaction ?? '',
    topic: body.topic,
    verb: body.verb ?? (reaction === undefined ? 'message' : reactionVerb(reaction)),
    sender_name: body.sender_name,
    reply_to_id: body.reply_to,
    reply_to_text: body.reply_to_text,
    reply_to_sender: body.reply_to_sender,
    forwarded_from: body.forwarded_from,
    chat_name: body.chat_name,
    is_group: body.is_group,
    is_from_me: body.is_from_me,
    link_context: body.link_context,
    attachments: attachments?.length ? JSON.stringify(attachments) : undefined,
    sent_at: seconds === undefined ? undefined : timestamp(Math.round(seconds * 1000)),
  }
  const speaking = speakingOf(host)
  const received = await host.engine.transaction((tx) => arrive(tx, speaking, arriving))
  if (!received) return { ok: true, id: platform_id, ignored: 'it was said by the agent' }
  if (received.isNew) host.signals.emit([jid])
  const id = platform_id ?? received.id
  return { ok: true, id, message_id: received.id, ...(received.isNew ? {} : { duplicate: true }) }
}

/** The adapter that delivers it. An adapter delivers what it owns; other callers may name an adapter of their secret. */
async function sourceOf(tx: Tx, caller: ChannelCaller, body: InboundBody): Promise<string | undefined> {
  const { chat_jid: jid, source } = body
  const platform = platformOf(jid)
  const fault = platformFault(platform)
  if (fault) refuse('forbidden', `the platform ${platform} ${fault} (jid_prefix_mismatch)`)
  if (caller.kind === 'secret') await mustHavePlatform(tx, secretNameOf(caller), platform)
  if (caller.kind !== 'adapter' && source === undefined) return undefined
  const named = await namedBy(tx, caller, source)
  if (ownedPrefix(named, jid) === '')
    refuse('forbidden', `${named.name} has no prefix of ${jid} (jid_prefix_mismatch)`, 'register the prefix')
  return named.name
}

async function namedBy(tx: Tx, caller: ChannelCaller, source: string | undefined) {
  if (caller.kind === 'adapter') return caller.registration
  const named = await channelRegistrations.find(tx, { name: source ?? '' })
  if (named && isOwn(caller, named)) return named
  return refuse('invalid', `source names no adapter that is registered: ${source} (bad_request)`)
}

/** What a repeat is known by. */
function idOf({ id }: InboundBody, source: string | undefined, key: string | undefined): string | undefined {
  if (key === undefined) return id
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    refuse('invalid', 'X-Idempotency-Key must be 1 to 255 visible characters (bad_request)')
  if (id !== undefined && id !== key)
    refuse('invalid', 'id and X-Idempotency-Key differ; send one of them (ambiguous_idempotency)')
  return id ?? `${source ?? 'in'}-${key}`
}
