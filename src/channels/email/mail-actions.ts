// What svc can ask for: mails in the thread that they answer, to the person who wrote.
import type { SearchObject } from 'imapflow'
import {
  type ConnectorActions,
  type ConnectorContext,
  type OutgoingPart,
  type Place,
  PlatformError,
  type PlatformHistoryMessage,
  type TargetMessage,
} from '../process/port.ts'
import type { AccountHealth } from './account-health.ts'
import { AccountFault, ADDRESS, ownAddress } from './mail-account.ts'
import {
  bytesOf,
  fileNameOf,
  type MailContext,
  type RawMail,
  type ReadMail,
  readMail,
  recipientOf,
  textOfMail,
} from './mail-reader.ts'
import { type MailReceiver, mailContextOf } from './mail-receiver.ts'
import { type MailMemory, type MailRecord, referencesOfAnswer, threadIdOf, topicOf } from './mail-threads.ts'
import type { Mailbox, MailFolder } from './mailbox.ts'
import { composeMail, type MailDraft, messageIdOf } from './outgoing-mail.ts'
import { sendMail } from './smtp-sender.ts'

/** Two programs that answer each other are stopped. */
const PER_HOUR_MAX = 60
const HOUR_MS = 3_600_000
/** Wrong passwords lock accounts. */
const REFUSED_PAUSE_MS = 5 * 60_000
const HISTORY_MAX = 100
/** Mails of which the time is looked at. */
const CANDIDATES_MAX = 1000
const DAY_MS = 24 * HOUR_MS
/** Of a mail whose headers and text are wanted. */
const START_BYTES = 512 * 1024
const UNKNOWN_END = 'an earlier attempt ended without an answer of the SMTP server: it may have been sent'

/** A mail in the mailbox. */
interface FoundMail extends ReadMail {
  readonly folder: MailFolder
}

export class MailActions {
  readonly #context: ConnectorContext
  readonly #mail: MailContext
  readonly #memory: MailMemory
  readonly #receiver: MailReceiver
  readonly #health: AccountHealth
  #refused: { readonly until: number; readonly why: string } | undefined

  constructor(context: ConnectorContext, memory: MailMemory, receiver: MailReceiver, health: AccountHealth) {
    this.#context = context
    this.#memory = memory
    this.#receiver = receiver
    this.#health = health
    this.#mail = mailContextOf(context, memory)
  }

  get all(): Partial<ConnectorActions> {
    const sendFile: ConnectorActions['sendFile'] = ({ path, filename, mime, caption = '', ...out }) =>
      this.#send(out, { text: caption, files: [{ path, filename, mime }] })
    return {
      sendText: ({ text, ...out }) => this.#send(out, { text }),
      sendFile,
      sendVoice: sendFile,
      forward: (out) => this.#forward(out),
      history: (place) => this.#history(place),
    }
  }

  /** The mail is in the folder of sent ones if an earlier attempt ended well. */
  async findSent({ nonce }: OutgoingPart): Promise<string> {
    const messageId = messageIdOf(nonce, this.#mail.address)
    const [uid] = await this.#mailbox().search('sent', { header: { 'message-id': `<${messageId}>` } })
    if (uid === undefined) throw new PlatformError('refused', UNKNOWN_END)
    return messageId
  }

  async #send(out: OutgoingPart, content: Pick<MailDraft, 'text' | 'files' | 'subject'>): Promise<string> {
    const answered = await this.#answered(out)
    const to = answered?.to ?? addressOf(out.chat)
    if (to === undefined)
      throw new PlatformError('refused', `the last mail of ${out.chat} is not known any more`, {
        hint: 'use send(chatJid, text) with the chat of one person, such as email:address/mia@example.com',
      })
    this.#checkPace(to)
    const from = this.#mail.address
    const { nonce, agentName } = out
    const isAnswer = content.subject === undefined
    const mail = await composeMail({
      ...{ from, agentName, to, toName: answered?.toName, nonce, ...content },
      answered: isAnswer ? answered : undefined,
    })
    await this.#handOver(mail)
    this.#countPace(to)
    this.#memory.remember(mail.messageId, {
      ...{ messageId: mail.messageId, subject: mail.subject, to, toName: answered?.toName, chat: out.chat },
      references: isAnswer && answered ? referencesOfAnswer(answered) : [],
      thread: answered && isAnswer ? answered.thread : threadIdOf(mail.messageId),
    })
    await this.#receiver.mailbox?.keepSent(mail.bytes).catch((error: unknown) => {
      this.#context.log.warn({ err: error }, 'the copy of a mail could not be put into the folder of sent ones')
    })
    return mail.messageId
  }

  async #handOver(mail: { readonly to: string; readonly bytes: Buffer }): Promise<void> {
    const { now } = this.#context
    const refused = this.#refused
    if (refused && now() < refused.until)
      throw new PlatformError('unavailable', refused.why, { retryAfterS: Math.ceil((refused.until - now()) / 1000) })
    try {
      await sendMail(this.#context, mail)
      this.#refused = undefined
      this.#health.set('SMTP', 'ok')
    } catch (error) {
      if (!(error instanceof AccountFault)) throw error
      this.#refused = { until: now() + REFUSED_PAUSE_MS, why: error.message }
      this.#health.set('SMTP', 'refused', error.message)
      throw new PlatformError('unavailable', error.message, { retryAfterS: REFUSED_PAUSE_MS / 1000 })
    }
  }

  #paceOf(to: string): { readonly hour: string; readonly count: number } {
    const hour = String(Math.floor(this.#context.now() / HOUR_MS))
    const [known, count] = (this.#context.state.cached(`pace ${to}`) ?? '').split(' ')
    return { hour, count: known === hour ? Number(count) : 0 }
  }

  #checkPace(to: string): void {
    if (this.#paceOf(to).count >= PER_HOUR_MAX)
      throw new PlatformError(
        'refused',
        `${to} got ${PER_HOUR_MAX} mails within an hour: two programs may be answering each other`,
      )
  }

  #countPace(to: string): void {
    const { hour, count } = this.#paceOf(to)
    this.#context.state.setCached(`pace ${to}`, `${hour} ${count + 1}`)
  }

  /** The mail that this one answers: in a chat of several people always, in one with a person only if svc names it or its thread. */
  async #answered({ chat, replyTo, threadId }: OutgoingPart): Promise<MailRecord | undefined> {
    const named =
      replyTo === undefined ? undefined : (this.#memory.recall(replyTo) ?? (await this.#recordInMailbox(chat, replyTo)))
    // An id of another chat must not send this to another person.
    if (named?.chat === chat) return named
    if (threadId !== undefined) return this.#memory.lastIn(chat, threadId)
    return chat.startsWith('thread/') ? this.#memory.lastIn(chat, undefined) : undefined
  }

  async #recordInMailbox(chat: string, id: string): Promise<MailRecord | undefined> {
    const found = await this.#find(id).catch(() => undefined)
    return found?.folder === 'sent' ? this.#recordOfSent(found, chat) : found?.record
  }

  #recordOfSent({ record, parsed }: ReadMail, chat: string): MailRecord | undefined {
    const to = recipientOf(parsed)
    const isInChat = chat === `address/${to}` || chat === `thread/${record.thread}`
    return to !== undefined && isInChat ? { ...record, to, toName: undefined, chat } : undefined
  }

  #mailbox(): Mailbox {
    const { mailbox } = this.#receiver
    if (!mailbox) throw new PlatformError('unavailable', 'the IMAP server cannot be reached')
    return mailbox
  }

  /** By its message id, in the inbox and among the sent ones. */
  async #find(id: string, maxBytes = START_BYTES): Promise<FoundMail | undefined> {
    if (!id.includes('@')) return undefined
    const mailbox = this.#mailbox()
    for (const folder of ['inbox', 'sent'] as const) {
      const uid = (await mailbox.search(folder, { header: { 'message-id': `<${id}>` } })).at(-1)
      const mail = uid === undefined ? undefined : await mailbox.fetch(folder, uid, maxBytes)
      const read = mail && (await this.#read(mail))
      if (read) return { ...read, folder }
    }
    return undefined
  }

  /** Undefined for a mail that cannot be read. */
  #read(mail: RawMail): Promise<ReadMail | undefined> {
    return readMail(this.#mail, mail).catch(() => undefined)
  }

  async #forward({ source, ...out }: OutgoingPart & { readonly source: TargetMessage }): Promise<string> {
    const found = await this.#find(source.id, Number.POSITIVE_INFINITY)
    const record = found?.folder === 'sent' ? this.#recordOfSent(found, source.chat) : found?.record
    if (!found || record?.chat !== source.chat)
      throw new PlatformError('refused', `there is no mail ${source.id} of this chat in the mailbox`)
    const { parsed, event } = found
    const head = [
      '---------- Forwarded message ----------',
      `From: ${event.sender_name ?? ''}`,
      `Date: ${new Date((event.timestamp ?? 0) * 1000).toUTCString()}`,
      `Subject: ${record.subject}`,
    ]
    return this.#send(out, {
      subject: `Fwd: ${record.subject}`,
      text: [...head, '', textOfMail(parsed)].join('\n'),
      files: parsed.attachments.map((file) => ({
        filename: fileNameOf(file),
        mime: file.mimeType,
        content: bytesOf(file),
      })),
    })
  }

  async #history({
    limit,
    before,
    ...place
  }: Place & { readonly limit: number; readonly before?: string | undefined }) {
    const most = Math.min(limit, HISTORY_MAX)
    const end = before === undefined ? undefined : new Date(before)
    if (Number.isNaN(end?.getTime()))
      throw new PlatformError('refused', 'before must be a time, such as 2026-01-31T08:00:00Z')
    const all = [await this.#candidates('sent', place, end), await this.#candidates('inbox', place, end)]
    const newest = all.flat().sort((one, other) => other.at.getTime() - one.at.getTime())
    const messages: PlatformHistoryMessage[] = []
    for (const { folder, uid } of newest.slice(0, 3 * most)) {
      if (messages.length === most) break
      const mail = await this.#mailbox().fetch(folder, uid, START_BYTES)
      const read = mail && (await this.#read(mail))
      const message = read && this.#historyMessage(folder, read, place)
      if (message) messages.push(message)
    }
    return { messages: messages.reverse(), ...(limit > most ? { cap: `${most} messages` } : {}) }
  }

  async #candidates(folder: MailFolder, place: Place, end: Date | undefined) {
    const query = this.#queryOf(folder, place)
    if (query === undefined) return []
    const mailbox = this.#mailbox()
    // IMAP knows days only.
    const before = end === undefined ? {} : { before: new Date(end.getTime() + 2 * DAY_MS) }
    const uids = await mailbox.search(folder, { ...query, ...before })
    const dates = await mailbox.dates(folder, uids.slice(-CANDIDATES_MAX))
    const found = dates.filter(({ at }) => end === undefined || at < end).map((each) => ({ ...each, folder }))
    // Times are in seconds, so the newest mail is the one with the highest number.
    return found.sort((one, other) => other.uid - one.uid)
  }

  #queryOf(folder: MailFolder, { chat }: Place): SearchObject | undefined {
    const address = addressOf(chat)
    if (address !== undefined) return folder === 'inbox' ? { from: address } : { to: address }
    const last = this.#memory.lastIn(chat, undefined)
    const root = last?.references[0] ?? last?.messageId
    if (root === undefined) return undefined
    return { or: [{ header: { references: root } }, { header: { 'message-id': root } }] }
  }

  #historyMessage(folder: MailFolder, read: ReadMail, { chat, threadId }: Place): PlatformHistoryMessage | undefined {
    const { event, parsed } = read
    const record = folder === 'sent' ? this.#recordOfSent(read, chat) : read.record
    const topic = record && chat.startsWith('address/') ? topicOf(record.thread) : undefined
    if (record?.chat !== chat || (threadId !== undefined && topic !== threadId)) return undefined
    return {
      id: event.id ?? '',
      sender: folder === 'sent' ? `email:${ownAddress(this.#context)}` : (event.sender ?? ''),
      sender_name: event.sender_name,
      content: folder === 'sent' ? textOfMail(parsed) : (event.content ?? ''),
      timestamp: event.timestamp ?? 0,
      topic,
      reply_to: event.reply_to,
      ...(folder === 'sent' ? { is_from_me: true } : {}),
    }
  }
}

function addressOf(chat: string): string | undefined {
  if (chat.startsWith('thread/')) return undefined
  const address = chat.startsWith('address/') ? chat.slice('address/'.length) : ''
  if (!ADDRESS.test(address))
    throw new PlatformError('refused', `${chat} is no chat of e-mail: it must look like address/mia@example.com`)
  return address
}
