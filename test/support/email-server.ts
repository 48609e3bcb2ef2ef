// A mailbox of a real mail server with a person who writes to it, and a relay before its SMTP server that reports what is sent and
// breaks as it is told.

import { once } from 'node:events'
import { connect as connectTo, createServer, type Socket } from 'node:net'
import { after } from 'node:test'
import MailComposer from 'nodemailer/lib/mail-composer/index.js'
import PostalMime, { type Email } from 'postal-mime'
import type {
  PlatformEvent,
  PlatformMessage,
  PlatformStandIn,
  SendFault,
} from '../../src/channels/process/connector.contract.ts'
import { type MailServer, openMailServer } from './mail-server.ts'
import type { CleanupScope } from './temp.ts'

export const EMAIL_PASSWORD = 'stand-in password of the mailbox'
/** The name of the receiving server in Authentication-Results. */
export const AUTHSERV = 'mx.example.test'

export interface SentMail extends PlatformMessage {
  readonly parsed: Email
  readonly to: string
}

export interface EmailAccount extends PlatformStandIn {
  readonly server: MailServer
  readonly address: string
  readonly personAddress: string
  readonly sent: readonly SentMail[]
  /** Delivers a mail with these headers, as the receiving server would. Returns its message id. */
  mail(headers: Readonly<Record<string, string>>, text: string): Promise<string>
  /** Delivers these bytes. */
  raw(mail: string | Buffer): Promise<void>
}

/** One mail server for the tests of a file; call it at its top level. */
export function shareMailServer(): () => Promise<MailServer> {
  const cleanups: (() => void)[] = []
  let shared: Promise<MailServer> | undefined
  after(() => {
    for (const cleanup of cleanups.reverse()) cleanup()
  })
  return () => {
    shared ??= openMailServer({ after: (cleanup) => void cleanups.push(cleanup) })
    return shared
  }
}

let accounts = 0

export async function openEmailAccount(
  t: CleanupScope,
  server: MailServer,
  settings: Readonly<Record<string, string>> = {},
  domain = `n${++accounts}.example.test`,
): Promise<EmailAccount> {
  const [address, person] = [`help@${domain}`, `mia@${domain}`]
  server.setPassword(address, EMAIL_PASSWORD)
  const sent: SentMail[] = []
  let fault: SendFault | undefined
  let last: string | Buffer = ''
  let mails = 0
  const relay = await openRelay(t, { host: server.host, port: 587 }, async (envelope, bytes) => {
    const now = fault
    fault = undefined
    if (now === undefined || now === 'lost after')
      return { fault: now, onTaken: async () => void sent.push(await sentMail(envelope, bytes)) }
    return { fault: now, onTaken: async () => undefined }
  })
  const raw = async (mail: string | Buffer): Promise<void> => {
    last = mail
    await server.deliver(mail, address)
  }
  const mail = async (headers: Readonly<Record<string, string>>, text: string): Promise<string> => {
    const id = `mail-${++mails}@${person.replace('@', '.')}`
    const all = {
      'Authentication-Results': `${AUTHSERV}; dmarc=pass header.from=${domain}`,
      From: `Mia Berg <${person}>`,
      To: address,
      'Message-ID': `<${id}>`,
      'Content-Type': 'text/plain; charset=utf-8',
      ...headers,
    }
    await raw(
      `${Object.entries(all)
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join('')}\r\n${text}`,
    )
    return id
  }
  const say = async ({ text = '', by, replyTo, file }: PlatformEvent): Promise<string> => {
    const headers = {
      ...(by === 'bot' ? { 'Auto-Submitted': 'auto-generated', From: 'bot@example.test' } : {}),
      ...(by === 'self' ? { From: address } : {}),
      ...(replyTo === undefined ? {} : { 'In-Reply-To': `<${replyTo}>`, References: `<${replyTo}>` }),
    }
    if (!file) return mail(headers, text)
    const id = `file-${++mails}@${person.replace('@', '.')}`
    const composed = new MailComposer({
      ...{ from: person, to: address, messageId: `<${id}>`, text },
      headers: { 'Authentication-Results': `${AUTHSERV}; dmarc=pass header.from=${domain}` },
      attachments: [{ filename: file.name, contentType: file.type, content: Buffer.from(file.bytes) }],
    })
    await raw(await composed.compile().build())
    return id
  }
  return {
    server,
    address,
    personAddress: person,
    account: {
      settings: {
        ...{ address, user: address, imap: `${server.host}:143`, smtp: `127.0.0.1:${relay}`, tls: 'off' },
        ...{ authserv: AUTHSERV, ...settings },
      },
      secrets: { password: EMAIL_PASSWORD },
    },
    chat: `address/${person}`,
    person: `email:${person}`,
    sent,
    clearSent: () => {
      sent.length = 0
    },
    say,
    mail,
    raw,
    failNext: (next) => {
      fault = next
    },
    revoke: () => {
      server.setPassword(address, 'another one')
      server.kick(address)
    },
    repeat: () => server.deliver(last, address),
  }
}

async function sentMail({ to }: { readonly to: string }, bytes: Buffer): Promise<SentMail> {
  const parsed = await PostalMime.parse(bytes)
  const unwrap = (id = ''): string => id.replace(/^<|>$/g, '')
  return {
    parsed,
    to,
    id: unwrap(parsed.messageId),
    chat: `address/${to}`,
    text: (parsed.text ?? '').trim(),
    replyTo: parsed.inReplyTo === undefined ? undefined : unwrap(parsed.inReplyTo),
    files: parsed.attachments.map(({ filename, content }) => ({
      name: filename ?? '',
      bytes: typeof content === 'string' ? content.length : content.byteLength,
    })),
  }
}

interface Decision {
  readonly fault: SendFault | undefined
  onTaken(): Promise<void>
}

/** Returns its port. `decide` gets each mail before the server has it. */
async function openRelay(
  t: CleanupScope,
  target: { readonly host: string; readonly port: number },
  decide: (envelope: { readonly to: string }, mail: Buffer) => Promise<Decision>,
): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connectTo(target)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
        sockets.delete(socket)
      })
    }
    let [to, isData, chunks]: [string, boolean, Buffer[]] = ['', false, []]
    let decision: Decision | undefined
    upstream.on('data', async (chunk: Buffer) => {
      if (/^354 /m.test(chunk.toString('latin1'))) isData = true
      const taken = decision
      decision = undefined
      if (taken) await taken.onTaken()
      if (taken?.fault === 'lost after') return void client.destroy()
      client.write(chunk)
    })
    client.on('data', async (chunk: Buffer) => {
      if (!isData) {
        to = /^RCPT TO:<([^>]*)>/im.exec(chunk.toString())?.[1] ?? to
        return void upstream.write(chunk)
      }
      chunks.push(chunk)
      if (!endsMail(chunks)) return
      const mail = Buffer.concat(chunks)
      ;[isData, chunks] = [false, []]
      const made = await decide({ to }, unstuffed(mail.subarray(0, -5)))
      const { fault } = made
      if (fault === 'lost before') return void client.destroy()
      if (fault === 'error') return void client.write('451 4.3.0 Error: queue file write error\r\n')
      if (typeof fault === 'object')
        return void client.write(
          `451 4.7.1 Too many mails${fault.limited === undefined ? '' : `, try again in ${fault.limited} seconds`}\r\n`,
        )
      decision = made
      upstream.write(mail)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

function endsMail(chunks: readonly Buffer[]): boolean {
  const end = Buffer.concat(chunks.slice(-2)).subarray(-5)
  return end.equals(Buffer.from('\r\n.\r\n'))
}

/** Without the second dot of lines that begin with one. */
function unstuffed(mail: Buffer): Buffer {
  return Buffer.from(mail.toString('latin1').replaceAll('\r\n..', '\r\n.'), 'latin1')
}
