// A mailbox from the command that connects it to the answers, with the real program and real mail servers.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { EMAIL_PASSWORD, type EmailAccount, openEmailAccount, shareMailServer } from '../support/email-server.ts'
import { sendOverSmtp } from '../support/mail-server.ts'
import { needs } from '../support/needs.ts'
import { adaptersBelow } from '../support/processes.ts'
import { type Instance, instance, type SvcExit } from '../support/svc.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

/** Types the password on standard input. */
async function connect({ root }: Instance, { account }: EmailAccount, ...flags: string[]): Promise<SvcExit> {
  const { address = '', imap = '', smtp = '', user = '', authserv = '' } = account.settings
  const servers = [
    '--address',
    address,
    '--imap',
    imap,
    '--smtp',
    smtp,
    '--user',
    user,
    '--set',
    `authserv=${authserv}`,
  ]
  const child = spawn(
    process.execPath,
    [BIN, 'channel', 'demo', 'add', 'email', ...servers, '--password', '-', ...flags],
    {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: join(root, '..') },
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  )
  child.stdin.end(`${EMAIL_PASSWORD}\n`)
  const said = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => (said.stdout += chunk))
  child.stderr.on('data', (chunk) => (said.stderr += chunk))
  const [code] = await once(child, 'close')
  return { code, ...said }
}

/** A mail of a program with a picture, in two parts. */
function mailWithPicture(from: string, to: string, id: string, text: string): string {
  return [
    ...[`From: Mia Berg <${from}>`, `To: ${to}`, 'Subject: A picture', `Message-ID: <${id}>`, 'MIME-Version: 1.0'],
    ...[
      'Content-Type: multipart/mixed; boundary=part',
      '',
      '--part',
      'Content-Type: text/plain; charset=utf-8',
      '',
      text,
    ],
    ...['--part', 'Content-Type: image/png; name=photo.png', 'Content-Transfer-Encoding: base64'],
    ...['Content-Disposition: attachment; filename=photo.png', '', 'iVBORw0KGgo=', '--part--', ''],
  ].join('\r\n')
}

suite('a mailbox', needs('mail server'), () => {
  const server = shareMailServer()
  const setUp = async (t: TestContext) => {
    const mailbox = await openEmailAccount(t, await server())
    return { mailbox, demo: await instance(t) }
  }

  test('answers a mail with a picture in its thread, over a crash of its adapter and of svc', async (t) => {
    const { mailbox, demo } = await setUp(t)
    const { personAddress: person, address } = mailbox
    const connected = await connect(demo, mailbox, '--tls', 'off')
    assert.equal(connected.code, 0, connected.stderr)
    assert.match(connected.stdout, new RegExp(`^connected email as ${address}\n$`))
    assert.equal((await demo.run('group', 'demo', 'add', `email:address/${person}`, 'team')).code, 0)
    const first = await demo.serve()
    const status = async () => (await demo.run('channel', 'demo', 'status')).stdout
    await until(async () => /^email\temail\thealthy/m.test(await status()))

    const { host } = await server()
    const mail = mailWithPicture(person, address, 'picture@example.test', 'one')
    await sendOverSmtp({ host, port: 25 }, person, address, mail)
    const countOf = (word: string): number => mailbox.sent.filter(({ text }) => text.includes(word)).length
    await until(() => mailbox.sent.length === 1)
    const [answer] = mailbox.sent
    assert.partialDeepStrictEqual(answer, { to: person, replyTo: 'picture@example.test' })
    assert.equal(answer?.parsed.subject, 'Re: A picture')
    assert.match(answer?.text ?? '', /one/)
    const files = readdirSync(join(demo.root, 'groups', 'team'), { recursive: true }).map(String)
    assert.ok(
      files.some((path) => path.endsWith('photo.png')),
      files.join('\n'),
    )

    const reply = (text: string) =>
      mailbox.mail({ 'In-Reply-To': `<${answer?.id}>`, References: `<picture@example.test> <${answer?.id}>` }, text)
    await until(async () => /^email\temail\t0\t0$/m.test(await status()))
    const [adapter = ''] = adaptersBelow(first.child.pid)
    process.kill(Number(adapter), 'SIGKILL')
    await reply('two words')
    await until(() => countOf('two words') === 1)
    await until(async () => /^email\temail\t0\t0$/m.test(await status()))

    first.child.kill('SIGKILL')
    await first.ended
    await reply('three words')
    const second = await demo.serve()
    await until(() => countOf('three words') === 1)
    assert.equal(mailbox.sent.length, 3)
    assert.match(mailbox.sent[2]?.parsed.references ?? '', /^<picture@example\.test> /)
    const { code, stderr } = await second.stop()
    assert.equal(code, 0)
    assert.doesNotMatch(stderr, new RegExp(EMAIL_PASSWORD))
  })

  test('is not saved if its server refuses it, or if it would send the password unencrypted', async (t) => {
    const { mailbox, demo } = await setUp(t)
    const unencrypted = await connect(
      demo,
      {
        ...mailbox,
        account: { ...mailbox.account, settings: { ...mailbox.account.settings, imap: 'imap.example.com:143' } },
      },
      '--tls',
      'off',
    )
    assert.match(unencrypted.stderr, /tls=off would send the password unencrypted/)
    mailbox.revoke()
    const refused = await connect(demo, mailbox, '--tls', 'off')
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /the IMAP server does not accept the user name and the password/)
    assert.doesNotMatch(refused.stdout + refused.stderr, new RegExp(EMAIL_PASSWORD))
    assert.match((await demo.run('channel', 'demo', 'list')).stderr, /no adapter secrets/)
  })
})
