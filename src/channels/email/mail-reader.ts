// Reads a mail into an event for svc. Everything in a mail is made up by strangers.
import PostalMime, { type Address, type Attachment, addressParser, type Email } from 'postal-mime'
import type { InboundAttachment, InboundEvent } from '../process/port.ts'
import { calendarText } from './calendar-text.ts'
import { htmlToText } from './html-text.ts'
import { ADDRESS, domainOf } from './mail-account.ts'
import { idOfHeaders, idOfMessageId, type MailRecord, parseMessageIds, threadIdOf, topicOf } from './mail-threads.ts'
import { stripQuotedHistory } from './quoted-history.ts'
import { isBelieved } from './sender-trust.ts'

export interface MailContext {
  readonly account: string
  /** Own address, in lower case. */
  readonly address: string
  /** The name of the receiving server in `Authentication-Results`. */
  readonly authserv: string | undefined
  /** What is known of an earlier mail. */
  recall(id: string): MailRecord | undefined
}

export interface RawMail {
  readonly bytes: Uint8Array
  /** Of the whole mail, of which `bytes` may be the beginning. */
  readonly size: number
  readonly receivedAt: Date
}

export interface ReadMail {
  readonly event: InboundEvent
  readonly record: MailRecord
  readonly parsed: Email
  /** Why it must not be answered: written by a program, a list, or the account itself. */
  readonly ignored?: string | undefined
}

/** Of all files of one mail: svc takes 32 MiB in base64. */
const FILES_MAX = 20 * 1024 * 1024
const FILE_COUNT_MAX = 50
const TEXT_MAX = 200_000
const NAME_MAX = 256
const FORWARDED_MAX = 5
const PARSER_LIMITS = { maxNestingDepth: 50, maxHeadersSize: 1024 * 1024, maxRfc822NestingDepth: 3 }

/** Undefined for a mail without an author. Rejected for one that cannot be parsed. */
export async function readMail(context: MailContext, mail: RawMail): Promise<ReadMail | undefined> {
  const parsed = await PostalMime.parse(mail.bytes, PARSER_LIMITS)
  const author = authorOf(parsed)
  if (!author) return undefined
  const believed = !author.isOdd && isBelieved(parsed.headers, author.address, context.authserv)
  const [messageId] = parseMessageIds(parsed.messageId ?? '')
  const id = messageId === undefined ? idOfHeaders(headersOf(parsed)) : idOfMessageId(messageId)
  const references = referencesOf(parsed)
  const thread = threadOfMail(context, references, messageId ?? id)
  const others = otherPeople(context, parsed, author.address)
  const chat = others.length === 0 ? `address/${author.address}` : `thread/${thread}`
  const replyTo = believed ? replyAddressOf(parsed) : undefined
  const subject = oneLine(parsed.subject ?? '').slice(0, 500)
  const { attachments, notes } = filesOf(parsed, mail)
  const forwarded = await forwardedTexts(parsed)
  const isFirst = references.length === 0
  const record = { messageId, subject, references, to: replyTo ?? author.address, toName: author.name, chat, thread }
  return {
    parsed,
    record,
    ignored: ignoredBecause(context, parsed, author.address),
    event: {
      chat_jid: `${context.account}:${chat}`,
      id,
      content: contentOf(parsed, subject, isFirst, [...forwarded, ...notes]),
      sender: believed ? `email:${author.address}` : `anon:${author.address}`,
      sender_name: author.name ?? author.address,
      timestamp: Math.floor(mail.receivedAt.getTime() / 1000),
      reply_to: references.length === 0 ? undefined : idOfMessageId(references.at(-1) ?? ''),
      topic: others.length === 0 ? topicOf(thread) : undefined,
      is_group: others.length > 0,
      chat_name: others.length === 0 ? undefined : subject.slice(0, NAME_MAX) || undefined,
      verb: believed ? (others.length > 0 && isNamed(context, parsed.to) ? 'mention' : undefined) : 'untrusted',
      attachments,
    },
  }
}

interface Author {
  readonly address: string
  readonly name: string | undefined
  /** Made to look like another one. */
  readonly isOdd: boolean
}

function authorOf({ headers }: Email): Author | undefined {
  const lines = headers.filter(({ key }) => key === 'from')
  const addresses = lines.flatMap(({ value }) => addressParser(value.slice(0, 10_000), { flatten: true }))
  const [first] = addresses
  const address = first?.address?.toLowerCase() ?? ''
  if (!ADDRESS.test(address)) return undefined
  const name = oneLine(first?.name ?? '').slice(0, NAME_MAX) || undefined
  const named = (name ?? '')
    .toLowerCase()
    .split(/[\s<>"'(),:;]+/)
    .find((word) => word.indexOf('@') > 0)
  const isOdd = lines.length !== 1 || addresses.length !== 1 || (named !== undefined && named !== address)
  return { address, name, isOdd }
}

function headersOf({ headerLines }: Email): string {
  return headerLines.map(({ line }) => line).join('\n')
}

/** From the first mail of the thread to the one that is answered. */
function referencesOf({ references = '', inReplyTo = '' }: Email): string[] {
  const [answered] = parseMessageIds(inReplyTo)
  const all = parseMessageIds(references).filter((id) => id !== answered)
  return answered === undefined ? all : [...all, answered]
}

/** Programs shorten References, so a mail that is known decides. */
function threadOfMail({ recall }: MailContext, references: readonly string[], own: string): string {
  const known = references.findLast((id) => recall(idOfMessageId(id)) !== undefined)
  return (known === undefined ? undefined : recall(idOfMessageId(known))?.thread) ?? threadIdOf(references[0] ?? own)
}

/** Other recipients than the account. */
function otherPeople(context: MailContext, parsed: Email, author: string): string[] {
  const delivered = parsed.headers
    .filter(({ key }) => key === 'delivered-to' || key === 'x-original-to')
    .map(({ value }) => value.trim().toLowerCase())
  const all = [...flat(parsed.to), ...flat(parsed.cc)]
  return [...new Set(all)].filter((each) => each !== author && !isOwn(context, each) && !delivered.includes(each))
}

function flat(addresses: readonly Address[] = []): string[] {
  return addresses
    .flatMap((each) => (each.group === undefined ? [each] : each.group))
    .map(({ address }) => address.toLowerCase())
    .filter((address) => ADDRESS.test(address))
}

/** Of a mail that the account sent. */
export function recipientOf({ to }: Email): string | undefined {
  return flat(to)[0]
}

/** Also with a tag, as in help+shop@example.com. */
function isOwn({ address }: MailContext, other: string): boolean {
  return other === address || withoutTag(other) === address
}

function withoutTag(address: string): string {
  const [plus, at] = [address.indexOf('+'), address.lastIndexOf('@')]
  return plus > 0 && plus < at ? address.slice(0, plus) + address.slice(at) : address
}

function isNamed(context: MailContext, addresses: readonly Address[] | undefined): boolean {
  return flat(addresses).some((each) => isOwn(context, each))
}

function replyAddressOf({ replyTo }: Email): string | undefined {
  const addresses = flat(replyTo)
  return addresses.length === 1 ? addresses[0] : undefined
}

/** RFC 3834, and what programs do that do not know it. */
function ignoredBecause(context: MailContext, parsed: Email, author: string): string | undefined {
  const header = (name: string): string | undefined =>
    parsed.headers
      .find(({ key }) => key === name)
      ?.value.trim()
      .toLowerCase()
  if (isOwn(context, author) || header('x-loop') === context.address) return 'of the account itself'
  if (header('return-path') === '<>' || /^multipart\/report/.test(header('content-type') ?? '')) return 'a bounce'
  if (/^(?:mailer-daemon|postmaster|noreply-dmarc\S*)@/.test(author)) return 'a bounce'
  if ((header('auto-submitted') ?? 'no').split(/[;\s]/, 1)[0] !== 'no') return 'automatic'
  if (/^(?:bulk|list|junk|auto_reply)/.test(header('precedence') ?? '')) return 'bulk mail'
  if (header('list-id') !== undefined || header('list-unsubscribe') !== undefined) return 'list mail'
  const marks = ['x-auto-response-suppress', 'x-autoreply', 'x-autorespond', 'x-autoresponder', 'x-mail-autoreply']
  return marks.some((mark) => (header(mark) ?? 'no') !== 'no') ? 'automatic' : undefined
}

export function textOfMail({ text = '', html = '' }: Email): string {
  const plain = text.replaceAll('\r\n', '\n').trim()
  return (plain === '' ? htmlToText(html) : plain).replaceAll('\u0000', '')
}

function contentOf(parsed: Email, subject: string, isFirst: boolean, notes: readonly string[]): string {
  const isForward = /^(?:fwd?|wg|tr|rv|enc)\s?:/i.test(subject)
  const whole = textOfMail(parsed)
  const text = isFirst || isForward ? whole : stripQuotedHistory(whole)
  const shown = text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}\n[the rest of the text is cut]`
  const head = isFirst && subject !== '' ? [`Subject: ${subject}\n`] : []
  return [...head, ...(shown === '' ? [] : [shown]), ...notes].join('\n').trim() || '[an empty mail]'
}

/** Files, and lines about those that svc cannot take and about what files say. */
function filesOf(parsed: Email, { bytes, size }: RawMail) {
  const attachments: InboundAttachment[] = []
  const notes: string[] = []
  const isCut = bytes.length < size
  let left = FILES_MAX
  for (const file of parsed.attachments) {
    const data = bytesOf(file)
    const filename = fileNameOf(file)
    if (/^(?:text\/calendar|application\/ics)$/.test(file.mimeType))
      notes.push(calendarText(new TextDecoder().decode(data)))
    if (isCut || data.length > left || attachments.length === FILE_COUNT_MAX)
      notes.push(`[the file ${filename} is too large to receive]`)
    else {
      attachments.push({ mime: file.mimeType.slice(0, 100), filename, data })
      left -= data.length
    }
  }
  if (isCut) notes.push(`[the mail has ${Math.ceil(size / 1024 / 1024)} MB: only its beginning was read]`)
  return { attachments, notes: notes.filter((note) => note !== '') }
}

/** Mails that are attached as files. Others are a part of the text. */
async function forwardedTexts({ attachments }: Email): Promise<string[]> {
  const mails = attachments.filter(({ mimeType }) => mimeType === 'message/rfc822').slice(0, FORWARDED_MAX)
  const texts = mails.map(async (file) => {
    const parsed = await PostalMime.parse(bytesOf(file), PARSER_LIMITS)
    const from = flat(parsed.from === undefined ? [] : [parsed.from])[0] ?? 'somebody'
    return `[attached mail of ${from}: ${oneLine(parsed.subject ?? '')}]\n${textOfMail(parsed).slice(0, TEXT_MAX)}`
  })
  // One that cannot be read is a file only.
  return (await Promise.allSettled(texts)).flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
}

export function bytesOf({ content }: Attachment): Uint8Array {
  if (typeof content === 'string') return Buffer.from(content)
  return content instanceof Uint8Array ? content : new Uint8Array(content)
}

export function fileNameOf({ filename, mimeType }: Attachment): string {
  const name = oneLine(filename ?? '').slice(0, NAME_MAX)
  if (name !== '') return name
  return mimeType === 'message/rfc822' ? 'mail.eml' : mimeType === 'text/calendar' ? 'invitation.ics' : 'file'
}

function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').trim()
}

/** Ids of own mails that a bounce may be about. */
export function bouncedIds(bytes: Uint8Array, address: string): string[] {
  const text = Buffer.from(bytes.subarray(0, 1024 * 1024)).toString('latin1')
  const ids = [...text.matchAll(/<([0-9a-f]{32}@[a-z0-9.-]{1,253})>/gi)].map(([, id = '']) => id)
  return [...new Set(ids)].filter((id) => domainOf(id) === domainOf(address))
}
