// The mailbox of the account over IMAP: one connection, which waits for new mail with IDLE between its commands.
import { type FetchMessageObject, ImapFlow, type SearchObject } from 'imapflow'
import type { AccountAccess } from '../process/port.ts'
import { addressOfServer } from './mail-account.ts'
import type { RawMail } from './mail-reader.ts'

/** Larger mails are read up to `START_MAX`. */
const WHOLE_MAX = 30 * 1024 * 1024
const START_MAX = 1024 * 1024
const CONNECT_MS = 30_000
/** Also servers with IDLE are asked as often, as some forget to report new mail. */
const POLL_MS = 60_000

export interface MailboxPosition {
  /** Changes if the server has numbered the mailbox anew. */
  readonly validity: string
  readonly next: number
}

export type MailFolder = 'inbox' | 'sent'

export interface Mailbox {
  /** Of the inbox. */
  position(): Promise<MailboxPosition>
  /** Numbers of mails from this one on, in order. */
  from(uid: number): Promise<number[]>
  /** Numbers of mails, in order. */
  search(folder: MailFolder, query: SearchObject): Promise<number[]>
  /** Undefined if it is gone. */
  fetch(folder: MailFolder, uid: number, maxBytes?: number): Promise<RawMail | undefined>
  /** When mails were received. */
  dates(folder: MailFolder, uids: readonly number[]): Promise<{ readonly uid: number; readonly at: Date }[]>
  /** Keeps a copy of a mail that was sent, if the server does not do so itself. */
  keepSent(mail: Buffer): Promise<void>
  /** Resolves when there may be new mail. Rejected when the connection ends. */
  wait(): Promise<void>
  /** Gmail keeps a copy of what is sent. */
  readonly keepsSent: boolean
  close(): void
}

export async function openMailbox(account: AccountAccess, guard: Guard): Promise<Mailbox> {
  const client = createClient(account)
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => undefined)
  client.on(
    'error',
    guard((error: Error) => ended.reject(error)),
  )
  client.on(
    'close',
    guard(() => ended.reject(new Error('the connection was closed'))),
  )
  const abort = guard(() => client.close())
  account.signal.addEventListener('abort', abort, { once: true })
  try {
    await client.connect()
    return new ImapMailbox(client, ended.promise, guard, await sentPath(client))
  } catch (error) {
    client.close()
    throw error
  }
}

export type Guard = <A extends readonly unknown[]>(callback: (...args: A) => unknown) => (...args: A) => void

function createClient({ settings, secrets }: AccountAccess): ImapFlow {
  const { host, port, tls } = addressOfServer(settings.imap, settings.tls)
  return new ImapFlow({
    host,
    port,
    secure: tls === 'implicit',
    ...(tls === 'implicit' ? {} : { doSTARTTLS: tls === 'starttls' }),
    auth: { user: settings.user ?? '', pass: secrets.password ?? '' },
    logger: false,
    disableAutoIdle: true,
    maxIdleTime: POLL_MS,
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    // A server that lies about sizes does not fill the memory.
    maxLiteralSize: 2 * WHOLE_MAX,
    maxLineLength: WHOLE_MAX,
    maxResponseSize: 3 * WHOLE_MAX,
  })
}

async function sentPath(client: ImapFlow): Promise<string | undefined> {
  const folders = await client.list()
  return folders.find(({ specialUse }) => specialUse === '\\Sent')?.path
}

class ImapMailbox implements Mailbox {
  readonly #client: ImapFlow
  readonly #ended: Promise<never>
  readonly #sent: string | undefined
  #isNews = false
  #onNews: (() => void) | undefined

  constructor(client: ImapFlow, ended: Promise<never>, guard: Guard, sent: string | undefined) {
    this.#client = client
    this.#ended = ended
    this.#sent = sent
    client.on(
      'exists',
      guard(() => {
        this.#isNews = true
        this.#onNews?.()
      }),
    )
  }

  get keepsSent(): boolean {
    return this.#client.capabilities.has('X-GM-EXT-1')
  }

  position(): Promise<MailboxPosition> {
    return this.#in('INBOX', async () => {
      const { mailbox } = this.#client
      if (mailbox === false) throw new Error('there is no mailbox')
      return { validity: String(mailbox.uidValidity), next: mailbox.uidNext }
    })
  }

  async from(uid: number): Promise<number[]> {
    // "5:*" also means the last mail if its number is lower.
    const found = await this.search('inbox', { uid: `${uid}:*` })
    return found.filter((each) => each >= uid)
  }

  async search(folder: MailFolder, query: SearchObject): Promise<number[]> {
    const path = this.#pathOf(folder)
    if (path === undefined) return []
    const found = await this.#in(path, () => this.#client.search(query, { uid: true }))
    return (Array.isArray(found) ? found : []).sort((one, other) => one - other)
  }

  async fetch(folder: MailFolder, uid: number, maxBytes = WHOLE_MAX): Promise<RawMail | undefined> {
    return this.#in(this.#pathOf(folder) ?? 'INBOX', async () => {
      const about = await this.#client.fetchOne(uid, { uid: true, size: true, internalDate: true }, { uid: true })
      if (!about) return undefined
      const size = about.size ?? 0
      const source = size > maxBytes ? { start: 0, maxLength: Math.min(maxBytes, START_MAX) } : true
      const whole = await this.#client.fetchOne(uid, { uid: true, source }, { uid: true })
      if (!whole || whole.source === undefined) return undefined
      return { bytes: whole.source, size, receivedAt: dateOf(about) }
    })
  }

  async dates(folder: MailFolder, uids: readonly number[]) {
    if (uids.length === 0) return []
    const found = await this.#in(this.#pathOf(folder) ?? 'INBOX', () =>
      this.#client.fetchAll(uids.join(','), { uid: true, internalDate: true }, { uid: true }),
    )
    return found.map((each) => ({ uid: each.uid, at: dateOf(each) }))
  }

  async keepSent(mail: Buffer): Promise<void> {
    if (this.#sent !== undefined && !this.keepsSent)
      await Promise.race([this.#client.append(this.#sent, mail, ['\\Seen']), this.#ended])
  }

  async wait(): Promise<void> {
    const news = Promise.withResolvers<void>()
    this.#onNews = news.resolve
    const timer = setTimeout(news.resolve, POLL_MS)
    try {
      const { mailbox } = this.#client
      // Another command may have left the inbox, or news may have arrived with it.
      if (this.#isNews || mailbox === false || mailbox.path !== 'INBOX') return
      // It ends when another command needs the connection; false: the server refuses it.
      const ended = await Promise.race([news.promise, this.#ended, this.#client.idle()])
      if (ended === false) await Promise.race([news.promise, this.#ended])
    } finally {
      clearTimeout(timer)
      this.#isNews = false
    }
  }

  close(): void {
    this.#client.close()
  }

  #pathOf(folder: MailFolder): string | undefined {
    return folder === 'inbox' ? 'INBOX' : this.#sent
  }

  async #in<T>(path: string, work: () => Promise<T>): Promise<T> {
    const lock = await Promise.race([this.#client.getMailboxLock(path), this.#ended])
    try {
      return await Promise.race([work(), this.#ended])
    } finally {
      lock.release()
    }
  }
}

function dateOf({ internalDate }: FetchMessageObject): Date {
  const date = new Date(internalDate ?? 0)
  return Number.isNaN(date.getTime()) ? new Date(0) : date
}
