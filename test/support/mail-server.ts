// Postfix and Dovecot of Debian with a configuration of their own, on a loopback address of this process, so that they have the
// usual ports. All mail is delivered to Dovecot, and nothing leaves the machine.
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import SMTPConnection from 'nodemailer/lib/smtp-connection/index.js'
import { type CleanupScope, tempDir } from './temp.ts'
import { until } from './until.ts'

const PORTS = { imap: 143, imaps: 993, lmtp: 24, mx: 25, smtp: 587, smtps: 465, auth: 12345 }

export interface MailServer {
  /** A loopback address. */
  readonly host: string
  /** Of the authority that signed the certificate of the server. */
  readonly certificate: string
  /** Adds a mailbox, or changes its password. */
  setPassword(address: string, password: string): void
  /** Ends the connections of a mailbox. */
  kick(address: string): void
  /** Puts a mail into a mailbox, and resolves when it is there. */
  deliver(mail: string | Buffer, to: string): Promise<void>
  /** Runs doveadm, such as `mailbox status`. */
  doveadm(...args: string[]): string
  stop(): void
  start(): Promise<void>
}

export async function openMailServer(t: CleanupScope): Promise<MailServer> {
  const host = `127.${(process.pid >>> 16) & 127}.${(process.pid >>> 8) & 255}.${process.pid & 255 || 1}`
  const directory = tempDir(t)
  const path = (name: string): string => join(directory, name)
  const users = new Map<string, string>()
  const write = (name: string, text: string): void => writeFileSync(path(name), text)
  for (const name of ['mail', 'postfix', 'spool', 'data']) mkdirSync(path(name))
  chmodSync(path('mail'), 0o777)
  chownSync(path('data'), Number(run('id', '-u', 'postfix')), -1)
  const certificate = makeCertificate(directory, host)
  write('users', '')
  write('dovecot.conf', dovecotConfig(directory, host))
  write('postfix/main.cf', postfixConfig(directory, host))
  write('postfix/master.cf', postfixServices(host))
  const doveadm = (...args: string[]): string => run('doveadm', '-c', path('dovecot.conf'), ...args)
  const start = async (): Promise<void> => {
    startDaemon('dovecot', '-c', path('dovecot.conf'))
    startDaemon('postfix', '-c', path('postfix'), 'start')
    await Promise.all([PORTS.lmtp, PORTS.smtp, PORTS.imap].map((port) => until(() => answers(host, port))))
  }
  const stop = (): void => {
    spawnSync('postfix', ['-c', path('postfix'), 'stop'], { stdio: 'ignore' })
    spawnSync('doveadm', ['-c', path('dovecot.conf'), 'stop'], { stdio: 'ignore' })
  }
  t.after(stop)
  await start()
  return {
    host,
    certificate,
    doveadm,
    start,
    stop,
    setPassword: (address, password) => {
      users.set(address, password)
      write('users.new', [...users].map(([name, word]) => `${name}:{PLAIN}${word}::::::\n`).join(''))
      // Dovecot never sees half of it.
      renameSync(path('users.new'), path('users'))
      // Dovecot looks at the file once a second.
      const isKnown = (): boolean =>
        spawnSync('doveadm', ['-c', path('dovecot.conf'), 'auth', 'test', address, password]).status === 0
      while (!isKnown());
    },
    kick: (address) => void spawnSync('doveadm', ['-c', path('dovecot.conf'), 'kick', address]),
    deliver: (mail, to) => sendOverSmtp({ host, port: PORTS.lmtp, lmtp: true }, 'person@example.test', to, mail),
  }
}

/** Hands a mail to a server, as a mail program does. */
export function sendOverSmtp(
  server: { readonly host: string; readonly port: number; readonly lmtp?: boolean },
  from: string,
  to: string,
  mail: string | Buffer,
): Promise<void> {
  const connection = new SMTPConnection({ ...server, ignoreTLS: true })
  return new Promise<void>((resolve, reject) => {
    connection.once('error', reject)
    connection.connect((error) => {
      if (error) return reject(error)
      connection.send({ from, to }, mail, (failed) => (failed ? reject(failed) : resolve()))
    })
  }).finally(() => connection.close())
}

function run(command: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`)
  return stdout
}

/** It keeps its standard streams open. */
function startDaemon(command: string, ...args: string[]): void {
  const { status } = spawnSync(command, args, { stdio: 'ignore' })
  if (status !== 0) throw new Error(`${command} does not start`)
}

async function answers(host: string, port: number): Promise<boolean> {
  const connection = new SMTPConnection({ host, port, ignoreTLS: true })
  return new Promise<boolean>((resolve) => {
    // Another protocol is an answer, too.
    connection.once('error', (error) => resolve(!('code' in error) || error.code === 'EPROTOCOL'))
    connection.connect((error) => resolve(error === undefined || error === null))
  }).finally(() => connection.close())
}

function makeCertificate(directory: string, host: string): string {
  const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
  const subject = ['-subj', '/CN=mail.example.test', '-addext', `subjectAltName=IP:${host}`]
  run(
    'openssl',
    ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30'.split(' '),
    ...subject,
    '-keyout',
    key,
    '-out',
    cert,
  )
  return readFileSync(cert, 'utf8')
}

function dovecotConfig(directory: string, host: string): string {
  const listener = (kind: string, port: number, more = ''): string =>
    `inet_listener ${kind} {\n address = ${host}\n port = ${port}\n ${more}\n }\n`
  return `base_dir = ${directory}/run
log_path = ${directory}/dovecot.log
protocols = imap lmtp
listen = ${host}
ssl = yes
ssl_cert = <${directory}/cert.pem
ssl_key = <${directory}/key.pem
disable_plaintext_auth = no
mailbox_idle_check_interval = 1s
auth_failure_delay = 0
mail_location = maildir:${directory}/mail/%u
mail_max_userip_connections = 100
first_valid_uid = 1
passdb {
 driver = passwd-file
 args = scheme=plain username_format=%u ${directory}/users
}
userdb {
 driver = static
 args = uid=mail gid=mail home=${directory}/mail/%u
}
namespace inbox {
 inbox = yes
 mailbox Sent {
  auto = subscribe
  special_use = \\Sent
 }
}
service imap-login {
 ${listener('imap', PORTS.imap)} ${listener('imaps', PORTS.imaps, 'ssl = yes')}
}
service lmtp {
 ${listener('lmtp', PORTS.lmtp)}
}
service auth {
 ${listener('auth', PORTS.auth)}
}
`
}

function postfixConfig(directory: string, host: string): string {
  return `compatibility_level = 3.6
queue_directory = ${directory}/spool
data_directory = ${directory}/data
maillog_file = ${directory}/postfix.log
maillog_file_prefixes = ${directory}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mail.example.test
mydestination =
mynetworks =
alias_maps =
local_recipient_maps =
virtual_mailbox_domains = static:ok
virtual_mailbox_maps = static:ok
virtual_transport = lmtp:inet:${host}:${PORTS.lmtp}
default_transport = error:no mail leaves this machine
message_size_limit = 67108864
virtual_mailbox_limit = 0
mailbox_size_limit = 0
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:${host}:${PORTS.auth}
smtpd_relay_restrictions = permit_sasl_authenticated, reject_unauth_destination
smtpd_client_connection_count_limit = 0
smtpd_tls_cert_file = ${directory}/cert.pem
smtpd_tls_key_file = ${directory}/key.pem
smtpd_tls_security_level = may
notify_classes =
`
}

function postfixServices(host: string): string {
  const smtpd = (port: number, ...options: string[]): string =>
    `${host}:${port} inet n - n - - smtpd${options.map((option) => ` -o ${option}`).join('')}\n`
  return `postlog unix-dgram n - n - 1 postlogd
${smtpd(PORTS.mx)}${smtpd(PORTS.smtp, 'smtpd_sasl_auth_enable=yes')}${smtpd(PORTS.smtps, 'smtpd_sasl_auth_enable=yes', 'smtpd_tls_wrappermode=yes')}
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
tlsmgr unix - - n 1000? 1 tlsmgr
`
}
