// Follows the inbox: hands each new mail to svc, and remembers the next one only when svc has it. What is in the inbox when an account is
// connected for the first time is not answered.
import { setTimeout as pause } from 'node:timers/promises'
import type { ConnectorContext } from '../process/port.ts'
import type { AccountHealth } from './account-health.ts'
import { ownAddress, permanentFault, unreachable } from './mail-account.ts'
import { bouncedIds, type MailContext, type RawMail, type ReadMail, readMail } from './mail-reader.ts'
import type { MailMemory } from './mail-threads.ts'
import { type Mailbox, openMailbox } from './mailbox.ts'

const PAUSE_MS = 1000
const PAUSE_MAX_MS = 60_000
/** Servers lock accounts after wrong passwords. */
const REFUSED_PAUSE_MS = 5 * 60_000
const REFUSED_PAUSE_MAX_MS = 3_600_000
const DAY_MS = 24 * 3_600_000
/** The clocks of this machine and the server differ. */
const CLOCKS_MS = 10 * 60_000
const CURSOR = 'inbox'
const SINCE = 'since'

export class MailReceiver {
  readonly #context: ConnectorContext
  readonly #mail: MailContext
  readonly #memory: MailMemory
  readonly #health: AccountHealth
  readonly #started = Promise.withResolvers<void>()
  #mailbox: Mailbox | undefined
  #failures = 0

  constructor(context: ConnectorContext, memory: MailMemory, health: AccountHealth) {
    this.#context = context
    this.#memory = memory
    this.#health = health
    this.#mail = mailContextOf(context, memory)
  }

  /** Resolves after the first attempt to connect: what arrives later is answered. */
  get started(): Promise<void> {
    return this.#started.promise
  }

  /** Undefined while there is no connection. */
  get mailbox(): Mailbox | undefined {
    return this.#mailbox
  }

  async run(): Promise<void> {
    const { signal } = this.#context
    try {
      while (!signal.aborted) await this.#connect()
    } finally {
      this.#started.resolve()
    }
  }

  async #connect(): Promise<void> {
    const { signal, guard } = this.#context
    try {
      const mailbox = await openMailbox(this.#context, guard)
      try {
        await this.#follow(mailbox)
      } finally {
        this.#mailbox = undefined
        mailbox.close()
      }
    } catch (error) {
      if (signal.aborted) return
      // Any of these is a mistake of this program.
      if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) throw error
      this.#started.resolve()
      await this.#pause(error)
    }
  }

  async #follow(mailbox: Mailbox): Promise<void> {
    let next = await this.#start(mailbox)
    this.#mailbox = mailbox
    this.#health.set('IMAP', 'ok')
    this.#started.resolve()
    for (;;) {
      next = await this.#readFrom(mailbox, next)
      this.#failures = 0
      await mailbox.wait()
    }
  }

  /** The number of the next mail to read. */
  async #start(mailbox: Mailbox): Promise<number> {
    const { state, now, log } = this.#context
    const { validity, next } = await mailbox.position()
    const [known, number, at] = (state.cursor(CURSOR) ?? '').split(' ')
    if (known === validity) return Number(number)
    if (known === '') {
      state.setCursor(SINCE, String(now() - CLOCKS_MS))
      this.#setCursor(validity, next, now())
      return next
    }
    log.warn({ known, validity }, 'the server has numbered the mailbox anew')
    // svc has some of these and ignores them, by their ids.
    const [first = next] = await mailbox.search('inbox', { since: new Date(Number(at) - DAY_MS) })
    this.#setCursor(validity, first, Number(at))
    return first
  }

  #setCursor(validity: string, next: number, at: number): void {
    this.#context.state.setCursor(CURSOR, `${validity} ${next} ${at}`)
  }

  async #readFrom(mailbox: Mailbox, first: number): Promise<number> {
    const { state } = this.#context
    const [validity = ''] = (state.cursor(CURSOR) ?? '').split(' ')
    let next = first
    for (const uid of await mailbox.from(first)) {
      const mail = await mailbox.fetch('inbox', uid)
      if (mail) await this.#receive(uid, mail)
      next = uid + 1
      this.#setCursor(validity, next, mail?.receivedAt.getTime() ?? this.#context.now())
    }
    return next
  }

  async #receive(uid: number, mail: RawMail): Promise<void> {
    const { log, state, receive } = this.#context
    // Moved into the inbox, from before the account was connected.
    if (mail.receivedAt.getTime() < Number(state.cursor(SINCE) ?? 0)) return
    const read = await this.#read(uid, mail)
    if (!read) return
    if (read.ignored !== undefined) {
      const bounced = read.ignored === 'a bounce' ? bouncedIds(mail.bytes, this.#mail.address) : []
      if (bounced.length > 0) log.warn({ messages: bounced }, 'a mail could not be delivered and came back')
      else log.info({ uid, because: read.ignored }, 'a mail is not answered')
      return
    }
    this.#memory.remember(read.event.id ?? '', read.record)
    await receive(read.event)
  }

  async #read(uid: number, mail: RawMail): Promise<ReadMail | undefined> {
    const { log } = this.#context
    try {
      const read = await readMail(this.#mail, mail)
      if (!read) log.info({ uid }, 'a mail is skipped, because it has no author')
      return read
    } catch (error) {
      log.warn({ uid, err: error }, 'a mail cannot be read')
      return undefined
    }
  }

  async #pause(error: unknown): Promise<void> {
    const { signal } = this.#context
    const fault = permanentFault('IMAP', error)
    if (fault === undefined) this.#health.set('IMAP', 'connecting', unreachable('IMAP', error))
    else this.#health.set('IMAP', 'refused', fault)
    const [first, most] = fault === undefined ? [PAUSE_MS, PAUSE_MAX_MS] : [REFUSED_PAUSE_MS, REFUSED_PAUSE_MAX_MS]
    const ms = Math.min(most, first * 2 ** Math.min(this.#failures++, 10))
    await pause(ms, undefined, { signal }).catch(() => undefined)
  }
}

export function mailContextOf(context: ConnectorContext, memory: MailMemory): MailContext {
  const { account, settings } = context
  return {
    account,
    address: ownAddress(context),
    authserv: settings.authserv,
    recall: (id) => memory.recall(id),
  }
}
