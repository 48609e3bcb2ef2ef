// What an adapter tells of a message that came in. The words in brackets are those of the protocol.
import { z } from 'zod'
import { type Arriving, arrive, reactionVerb } from '../../core/arrival.ts'
import { platformOf } from '../../core/channel.ts'
import { BUILT_IN_PLATFORMS, channelRegistrations, ownedPrefix } from '../../core/channel-registrations.ts'
import { Topic } from '../../core/messages.ts'
import { speakingOf } from '../../core/rounds.ts'
import { Jid, line, prose, text } from '../../core/values.ts'
import { timestamp } from '../../lib/clock.ts'
import { sentences } from '../../lib/parse.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { ChannelCaller } from './channel-caller.ts'

/** Members that are there but empty are as good as absent: adapters fill in what their platform tells. */
const maybe = <S extends z.ZodType>(schema: S) =>
  z.preprocess((value) => (value === '' || value === null ? undefined : value), schema.optional())

const Attachment = z.strictObject({
  mime: maybe(line(256)),
  filename: maybe(line(256)),
  url: maybe(z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).max(4096)),
  data: maybe(z.base64({ error: 'must be base64' })),
})

const Verb = text((value) =>
  /^[a-z][a-z0-9_-]{0,31}$/.test(value) ? undefined : 'must be a word such as message, mention or join',
)

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
  if (platformOf(sender) !== platformOf(jid) && platformOf(sender) !== 'anon' && sender.includes(':'))
    refuse(
      'invalid',
      `the sender of a ${platformOf(jid)} chat is not of ${platformOf(sender)} (sender_scheme_mismatch)`,
    )
  const source = await sourceOf(host, caller, body)
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

/** Who delivers it: an adapter only what is its own, others what an adapter owns whom they name. */
async function sourceOf(host: Host, caller: ChannelCaller, body: InboundBody): Promise<string | undefined> {
  const { chat_jid: jid, source } = body
  if (BUILT_IN_PLATFORMS.includes(platformOf(jid)))
    refuse('forbidden', `the chats of ${platformOf(jid)} are the instance's own (jid_prefix_mismatch)`)
  if (caller.kind !== 'adapter' && source === undefined) return undefined
  const named = await namedBy(host, caller, source)
  if (ownedPrefix(named, jid) === '')
    refuse('forbidden', `${named.name} has no prefix of ${jid} (jid_prefix_mismatch)`, 'register the prefix')
  return named.name
}

async function namedBy(host: Host, caller: ChannelCaller, source: string | undefined) {
  if (caller.kind === 'adapter') return caller.registration
  const named = await host.engine.read((tx) => channelRegistrations.find(tx, { name: source ?? '' }))
  return named ?? refuse('invalid', `source names no adapter that is registered: ${source} (bad_request)`)
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
