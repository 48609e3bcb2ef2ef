// Parses and records inbound messages from channel adapters, and changes of them. Words in brackets in errors are error codes of the protocol.
import { z } from 'zod'
import { isReservedVerb, platformFault, senderFault } from '../../core/access/namespaces.ts'
import { BUTTON_ID, platformOf } from '../../core/delivery/channel.ts'
import { personNamespaceOf } from '../../core/delivery/channel-accounts.ts'
import { channelRegistrations, ownedPrefix } from '../../core/delivery/channel-registrations.ts'
import { basePlatformOf } from '../../core/delivery/platforms.ts'
import { Topic } from '../../core/messages/messages.ts'
import { changeFromPlatform, type PlatformChange } from '../../core/messages/platform-changes.ts'
import { type PlatformInbound, reactionVerb, receiveFromPlatform } from '../../core/messages/platform-inbound.ts'
import { mustOwnPlatform } from '../../core/secrets/channel-secrets.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { checkedText, Jid, line, multilineText } from '../../core/values.ts'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import { formatIssues } from '../../lib/text/schema-parser.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { pressButton } from '../process/button-presses.ts'
import { type ChannelCaller, mustStillBeValid, ownsRegistration, secretNameOf } from './channel-caller.ts'

/** Adapters may send fields that their platform does not know as empty or null. */
const optional = <S extends z.ZodType>(schema: S) =>
  z.preprocess((value) => (value === '' || value === null ? undefined : value), schema.optional())

const Attachment = z.strictObject({
  mime: optional(line(256)),
  filename: optional(line(256)),
  url: optional(z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).max(4096)),
  data: optional(z.base64({ error: 'must be base64' })),
})

const Verb = checkedText((value) => {
  if (!/^[a-z][a-z0-9_-]{0,31}$/.test(value)) return 'must be a word such as message, mention or join'
  return isReservedVerb(value) ? `must not be ${value}, which is reserved` : undefined
})

const CONTENT_MAX = 262_144

export const InboundBody = z.strictObject({
  chat_jid: Jid,
  content: optional(multilineText(CONTENT_MAX)),
  id: optional(line(512)),
  sender: optional(line(256)),
  sender_name: optional(line(256)),
  timestamp: optional(z.number().min(0).max(8.64e12, 'must be seconds since 1970')),
  reply_to: optional(line(512)),
  reply_to_text: optional(multilineText(65_536)),
  reply_to_sender: optional(line(256)),
  forwarded_from: optional(line(512)),
  topic: optional(Topic),
  verb: optional(Verb),
  reaction: optional(line(64)),
  is_group: optional(z.boolean()),
  is_from_me: optional(z.boolean()),
  chat_name: optional(line(256)),
  source: optional(line(64)),
  link_context: optional(multilineText(16_384)),
  attachments: optional(z.array(Attachment).max(50)),
  edits: optional(line(512)),
  deletes: optional(line(512)),
  reaction_removed: optional(z.boolean()),
  action: optional(z.string().regex(BUTTON_ID, 'must be the id of a button')),
})
export type InboundBody = z.output<typeof InboundBody>

export interface InboundReceipt {
  readonly ok: true
  /** The platform's id, or `message_id` without one; for a change without one, that of the changed message. */
  readonly id?: string | undefined
  readonly message_id?: string | undefined
  readonly duplicate?: true
  /** Why nothing was recorded. */
  readonly ignored?: string
}

export function readInbound(raw: unknown): InboundBody {
  const body = parseChannelBody(InboundBody, raw)
  const { content, reaction, attachments } = body
  const verb = changeVerbOf(body)
  if (body.action !== undefined || body.verb === ACTION) mustBePress(body, verb)
  else if (verb !== undefined) mustBeChange(body, verb)
  else if (content === undefined && reaction === undefined && !attachments?.length)
    refuse('invalid', 'content is required (missing_field)')
  return body
}

const ACTION = 'action'

/** A person has pressed a button. */
function mustBePress(body: InboundBody, changeVerb: ChangeVerb | undefined): void {
  const { verb, reaction, content, attachments } = body
  if (verb !== ACTION) refuse('invalid', `action needs verb ${ACTION} (bad_request)`)
  const missing = (['action', 'reply_to', 'sender'] as const).find((name) => body[name] === undefined)
  if (missing !== undefined) refuse('invalid', `verb ${ACTION} needs ${missing} as well (missing_field)`)
  if (changeVerb !== undefined || (reaction ?? content) !== undefined || attachments?.length)
    refuse('invalid', `verb ${ACTION} excludes content, reactions and changes (bad_request)`)
}

const CHANGE_MEMBERS = { edit: 'edits', delete: 'deletes', unlike: 'reaction_removed' } as const
type ChangeVerb = keyof typeof CHANGE_MEMBERS

interface ChangeMembers {
  readonly required: readonly (keyof InboundBody)[]
  readonly excluded: readonly (keyof InboundBody)[]
}

const MEMBERS_OF: Readonly<Record<ChangeVerb, ChangeMembers>> = {
  edit: { required: ['content'], excluded: ['deletes', 'reaction', 'reaction_removed'] },
  delete: { required: [], excluded: ['reaction', 'reaction_removed', 'content', 'attachments'] },
  unlike: { required: ['reaction', 'reply_to', 'sender'], excluded: ['content', 'attachments'] },
}

/** Undefined for a new message. */
function changeVerbOf({ edits, deletes, reaction_removed }: InboundBody): ChangeVerb | undefined {
  if (edits !== undefined) return 'edit'
  if (deletes !== undefined) return 'delete'
  return reaction_removed ? 'unlike' : undefined
}

function mustBeChange(body: InboundBody, verb: ChangeVerb): void {
  const member = CHANGE_MEMBERS[verb]
  const { required, excluded } = MEMBERS_OF[verb]
  // Adapters may send false and empty lists.
  const isGiven = (name: keyof InboundBody): boolean =>
    body[name] !== undefined && body[name] !== false && !(name === 'attachments' && body.attachments?.length === 0)
  const excess = excluded.find(isGiven)
  if (excess !== undefined)
    refuse('invalid', `${member} and ${excess} exclude each other: send one of them (bad_request)`)
  const missing = required.find((name) => !isGiven(name))
  if (missing !== undefined) refuse('invalid', `${member} needs ${missing} as well (missing_field)`)
  if (body.id !== undefined && body.id === targetOf(body))
    refuse(
      'invalid',
      `id must not be the id of the message that ${member} is about: send the id of the event itself, or no id (bad_request)`,
    )
}

/** The message that is changed. */
function targetOf({ edits, deletes, reply_to }: InboundBody): string {
  return edits ?? deletes ?? reply_to ?? ''
}

export function parseChannelBody<S extends z.ZodType>(schema: S, raw: unknown): z.output<S> {
  const parsed = schema.safeParse(raw, { reportInput: true })
  if (parsed.success) return parsed.data
  const isMissing = parsed.error.issues.some(({ code, input }) => code === 'invalid_type' && input === undefined)
  return refuse('invalid', `${formatIssues(parsed.error.issues)} (${isMissing ? 'missing_field' : 'bad_request'})`)
}

/** Records a message or a change of one, unless it is a duplicate or the agent's own. */
export async function acceptInbound(
  host: InstanceHost,
  caller: ChannelCaller,
  body: InboundBody,
  key: string | undefined,
): Promise<InboundReceipt> {
  const { chat_jid: jid, sender = `anon:${platformOf(jid)}` } = body
  const source = await host.engine.read(async (tx) => {
    await mustStillBeValid(tx, caller)
    await mustSpeakFor(tx, caller, sender, platformOf(jid))
    return sourceOf(tx, caller, body)
  })
  const platform_id = idOf(body, source, key)
  const { reaction, timestamp: seconds, attachments } = body
  const files = attachments?.length ? JSON.stringify(attachments) : undefined
  const sent_at = seconds === undefined ? undefined : timestamp(Math.round(seconds * 1000))
  const verb = changeVerbOf(body)
  const { action, reply_to: message = '' } = body
  if (action !== undefined) {
    const outcome = await pressButton(host, { jid, message, action, sender, name: body.sender_name })
    return { ok: true, id: platform_id ?? message, ...outcome }
  }
  if (verb !== undefined) {
    const { sender_name, is_from_me } = body
    const change = {
      verb,
      jid,
      sender,
      sender_name,
      source,
      is_from_me,
      target_id: targetOf(body),
      event_id: platform_id,
    }
    const content = verb === 'unlike' ? reaction : body.content
    return acceptChange(host, { ...change, content, attachments: files, changed_at: sent_at })
  }
  const inbound: PlatformInbound = {
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
    attachments: files,
    sent_at,
  }
  const writeContext = writeContextOf(host)
  const received = await host.engine.transaction((tx) => receiveFromPlatform(tx, writeContext, inbound))
  if (!received) return { ok: true, id: platform_id, ignored: 'the agent sent it' }
  if (received.isNew) host.signals.emit([jid])
  const id = platform_id ?? received.id
  return { ok: true, id, message_id: received.id, ...(received.isNew ? {} : { duplicate: true }) }
}

async function mustSpeakFor(tx: Tx, caller: ChannelCaller, sender: string, platform: string): Promise<void> {
  const fault = senderFault(sender, platform, await personNamespaceOf(tx, secretNameOf(caller), platform))
  if (!fault) return
  const base = basePlatformOf(platform)
  const hint = sender.startsWith(`${base}:`)
    ? `the secret of the adapter must also name ${base}; or send ${platform}:… as the sender`
    : undefined
  refuse('invalid', `${fault} (sender_scheme_mismatch)`, hint)
}

async function acceptChange(host: InstanceHost, change: PlatformChange): Promise<InboundReceipt> {
  const writeContext = writeContextOf(host)
  const outcome = await host.engine.transaction((tx) => changeFromPlatform(tx, writeContext, change))
  const id = change.event_id ?? change.target_id
  if ('ignored' in outcome) return { ok: true, id, ignored: outcome.ignored }
  if (outcome.isNew) host.signals.emit(outcome.keys)
  return { ok: true, id, message_id: outcome.id, ...(outcome.isNew ? {} : { duplicate: true }) }
}

/** The delivering adapter: an adapter itself, or the one that a caller with its secret names. */
async function sourceOf(tx: Tx, caller: ChannelCaller, body: InboundBody): Promise<string | undefined> {
  const { chat_jid: jid, source } = body
  const platform = platformOf(jid)
  const fault = platformFault(platform)
  if (fault) refuse('forbidden', `the platform ${platform} ${fault} (jid_prefix_mismatch)`)
  if (caller.kind === 'secret') await mustOwnPlatform(tx, secretNameOf(caller), platform)
  if (caller.kind !== 'adapter' && source === undefined) return undefined
  const adapter = await mustFindAdapter(tx, caller, source)
  if (ownedPrefix(adapter, jid) === '')
    refuse(
      'forbidden',
      `${adapter.name} has registered no prefix of ${jid} (jid_prefix_mismatch)`,
      'register the prefix',
    )
  return adapter.name
}

async function mustFindAdapter(tx: Tx, caller: ChannelCaller, source: string | undefined) {
  if (caller.kind === 'adapter') return caller.registration
  const adapter = await channelRegistrations.find(tx, { name: source ?? '' })
  if (adapter && ownsRegistration(caller, adapter)) return adapter
  return refuse('invalid', `source ${source} is not a registered adapter (bad_request)`)
}

/** The id that identifies a repeat. */
function idOf({ id }: InboundBody, source: string | undefined, key: string | undefined): string | undefined {
  if (key === undefined) return id
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    refuse('invalid', 'X-Idempotency-Key must be 1 to 255 visible characters (bad_request)')
  if (id !== undefined && id !== key)
    refuse('invalid', 'id and X-Idempotency-Key differ; send one of them (ambiguous_idempotency)')
  return id ?? `${source ?? 'in'}-${key}`
}
