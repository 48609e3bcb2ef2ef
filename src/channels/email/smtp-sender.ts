// Hands one mail to the SMTP server of the account. Errors say whether the server may have taken it: not before its end was sent.
import { Readable } from 'node:stream'
import SMTPConnection from 'nodemailer/lib/smtp-connection/index.js'
import { guard, throwUncaught } from '../../lib/fault-boundary.ts'
import { type AccountAccess, PlatformError } from '../process/port.ts'
import { accountFault, addressOfServer, ownAddress, permanentFault, unreachable } from './mail-account.ts'

const CONNECT_MS = 30_000
/** Large mails are checked for viruses before they are accepted. */
const SILENCE_MS = 5 * 60_000
const PIECE = 64 * 1024

export interface OutgoingEnvelope {
  readonly to: string
  readonly bytes: Buffer
}

/** Connects, logs in, and does this. */
async function withServer<T>(account: AccountAccess, work: (connection: SMTPConnection) => Promise<T>): Promise<T> {
  const { host, port, tls } = addressOfServer(account.settings.smtp, account.settings.tls)
  const connection = new SMTPConnection({
    host,
    port,
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    socketTimeout: SILENCE_MS,
  })
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => undefined)
  connection.on('error', broken.reject)
  connection.on('end', () => broken.reject(new Error('the connection was closed')))
  const onAbort = guard(throwUncaught, () => connection.close())
  account.signal.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([logIn(connection, account), broken.promise]).catch((error) => {
      throw accountFault('SMTP', error)
    })
    return await Promise.race([work(connection), broken.promise])
  } finally {
    account.signal.removeEventListener('abort', onAbort)
    connection.close()
  }
}

async function logIn(connection: SMTPConnection, { settings, secrets }: AccountAccess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    connection.connect((error) => (error ? reject(error) : resolve()))
  })
  // Servers at loopback addresses may need no login.
  if (!connection.allowsAuth && settings.tls === 'off') return
  await new Promise<void>((resolve, reject) => {
    connection.login({ credentials: { user: settings.user ?? '', pass: secrets.password ?? '' } }, (error) =>
      error ? reject(error) : resolve(),
    )
  })
}

export function checkSmtp(account: AccountAccess): Promise<void> {
  return withServer(account, async () => undefined)
}

export async function sendMail(account: AccountAccess, { to, bytes }: OutgoingEnvelope): Promise<void> {
  let isWhole = false
  const mail = Readable.from(
    piecesOf(bytes, () => {
      isWhole = true
    }),
  )
  const envelope = { from: ownAddress(account), to, size: bytes.length }
  await withServer(
    account,
    (connection) =>
      new Promise<void>((resolve, reject) => {
        connection.send(envelope, mail, (error) => (error ? reject(error) : resolve()))
      }),
  ).catch((error) => {
    throw sendFault(error, isWhole)
  })
}

function* piecesOf(bytes: Buffer, onEnd: () => void): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE) {
    if (at + PIECE >= bytes.length) onEnd()
    yield bytes.subarray(at, at + PIECE)
  }
}

/** Servers say in words that there were too many mails. */
const LIMITED = /too many|too much|rate|limit|quota|throttl|slow down|try again in|exceeded/i

function sendFault(error: unknown, isWhole: boolean): PlatformError {
  if (error instanceof PlatformError) return error
  const { responseCode, response, code, message } = (error ?? {}) as Record<string, unknown>
  const text = String(response ?? message ?? '')
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, 300)
  const status = Number(responseCode ?? 0)
  const says = `the SMTP server answers: ${text}`
  // 5.4.5 is temporary by its meaning: the mails of a day.
  if (status >= 500 && !/\b5\.4\.5\b/.test(text)) return new PlatformError('refused', says)
  if (status >= 400)
    return LIMITED.test(text) || status >= 500
      ? new PlatformError('rate_limited', says, { retryAfterS: secondsIn(text) })
      : new PlatformError('unavailable', says)
  if (code === 'EMESSAGE' || code === 'EENVELOPE')
    return new PlatformError('refused', `the mail cannot be sent: ${text}`)
  const fault = permanentFault('SMTP', error) ?? unreachable('SMTP', error)
  return isWhole
    ? new PlatformError('unclear', `${fault}: the mail may have been sent`)
    : new PlatformError('unavailable', fault)
}

const UNITS = { s: 1, m: 60, h: 3600 } as const

/** As in "try again in 7 seconds". */
function secondsIn(text: string): number | undefined {
  const [, count = '', unit = ''] = /\b(?:in|after|for) (\d{1,5}) ?(s|m|h)/i.exec(text) ?? []
  return count === '' ? undefined : Number(count) * UNITS[unit.toLowerCase() as keyof typeof UNITS]
}
