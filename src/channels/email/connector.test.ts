import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { openFakeHost, shareInSuite, startAdapter } from '../../../test/support/adapter-process.ts'
import { EMAIL_PASSWORD, openEmailAccount, shareMailServer } from '../../../test/support/email-server.ts'
import { sendOverSmtp } from '../../../test/support/mail-server.ts'
import { needs } from '../../../test/support/needs.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { testConnector } from '../process/connector.contract.ts'
import { PlatformError } from '../process/port.ts'
import { checkAccount } from './connector.ts'

suite('e-mail', needs('mail server'), () => {
  const server = shareMailServer()
  const setUp = async (t: CleanupScope, settings: Record<string, string> = {}) => {
    const [host, platform] = [await openFakeHost(t), await openEmailAccount(t, await server(), settings)]
    const directory = join(tempDir(t), 'adapter')
    mkdirSync(directory)
    const config = { platform: 'email', account: 'email-shop', directory, ...platform.account }
    const restart = () => startAdapter(t, host, config)
    return { host, platform, restart, adapter: await restart(), jid: `email-shop:${platform.chat}` }
  }
  /** One process for the tests of a suite. */
  const share = () => {
    const shared = shareInSuite(setUp)
    return async () => {
      const { host, platform } = await shared()
      host.clear()
      platform.clearSent()
      return shared()
    }
  }

  testConnector({
    platform: 'email',
    textMax: 500_000,
    afterLostAnswer: 'unknown',
    open: async (t) => openEmailAccount(t, await server()),
  })

  suite('answers', () => {
    const shared = share()

    test('stay in the thread of the mail, and name what they answer', async () => {
      const { host, platform, jid } = await shared()
      const id = await platform.mail(
        { Subject: 'Opening hours', References: '<root@example.test> <before@example.test>' },
        'When?',
      )
      await until(() => host.stored.length === 1)
      const { topic: thread_id } = host.stored[0] ?? {}
      const { body } = await host.post('/send', {
        chat_jid: jid,
        content: '**Nine**.',
        key: 'a1',
        thread_id,
        agent_name: 'Ada',
      })
      const [mail] = platform.sent
      assert.equal(mail?.to, platform.personAddress)
      const { subject, inReplyTo, references, from, text, html, headers } = mail?.parsed ?? {}
      assert.deepEqual(
        { subject, inReplyTo, references, text: text?.trim() },
        {
          subject: 'Re: Opening hours',
          inReplyTo: `<${id}>`,
          references: `<root@example.test> <before@example.test> <${id}>`,
          text: '**Nine**.',
        },
      )
      assert.deepEqual(from, { name: 'Ada', address: platform.address })
      assert.match(html ?? '', /<p><strong>Nine<\/strong>\.<\/p>/)
      const header = (name: string) => headers?.find(({ key }) => key === name)?.value
      assert.deepEqual([header('auto-submitted'), header('x-loop')], ['auto-replied', platform.address])
      // An answer to the own mail goes to the person, too.
      await host.post('/send', { chat_jid: jid, content: 'And on Sunday ten.', key: 'a2', reply_to: body.id })
      assert.partialDeepStrictEqual(platform.sent[1], { to: platform.personAddress, replyTo: body.id })
      assert.match(platform.sent[1]?.parsed.references ?? '', new RegExp(`^<root@example\\.test> .*<${body.id}>$`))
    })

    test('find their thread in the mailbox if the adapter has forgotten it', async (t) => {
      const { host, platform, jid, adapter } = await setUp(t)
      const id = await platform.mail({ Subject: 'Old' }, 'text')
      await until(() => host.stored.length === 1)
      const { body } = await host.post('/send', { chat_jid: jid, content: 'mine', key: 'f1', reply_to: id })
      await adapter.stop()
      const directory = join(tempDir(t), 'new')
      mkdirSync(directory)
      await startAdapter(t, host, { platform: 'email', account: 'email-shop', directory, ...platform.account })
      for (const reply_to of [id, String(body.id)]) {
        assert.equal((await host.post('/send', { chat_jid: jid, content: 'x', key: reply_to, reply_to })).status, 200)
        assert.partialDeepStrictEqual(platform.sent.at(-1), { replyTo: reply_to, to: platform.personAddress })
        assert.equal(platform.sent.at(-1)?.parsed.subject, 'Re: Old')
      }
    })

    test('to several people go to the one who wrote', async () => {
      const { host, platform } = await shared()
      const id = await platform.mail({ Subject: 'Plan', Cc: 'noah@example.test' }, 'What now?')
      await until(() => host.stored.length === 1)
      const [event] = host.stored
      assert.partialDeepStrictEqual(event, {
        is_group: true,
        verb: 'mention',
        chat_name: 'Plan',
        sender: platform.person,
      })
      assert.match(event?.chat_jid ?? '', /^email-shop:thread\/[0-9a-f]{24}$/)
      await host.post('/send', { chat_jid: event?.chat_jid, content: 'This.', key: 'g1' })
      assert.partialDeepStrictEqual(platform.sent[0], { to: platform.personAddress, replyTo: id })
      const unknown = await host.post('/send', {
        chat_jid: `email-shop:thread/${'0'.repeat(24)}`,
        content: 'x',
        key: 'g2',
      })
      assert.equal(unknown.status, 400)
      assert.match(String(unknown.body.hint), /send\(chatJid, text\)/)
    })

    test('never reach a person of another chat by the id of a mail', async () => {
      const { host, platform } = await shared()
      const id = await platform.mail({ Subject: 'Secret' }, 'x')
      await until(() => host.stored.length === 1)
      await host.post('/send', {
        chat_jid: 'email-shop:address/noah@example.test',
        content: 'Hello Noah',
        key: 'o1',
        reply_to: id,
      })
      assert.partialDeepStrictEqual(platform.sent[0], { to: 'noah@example.test', replyTo: undefined })
      assert.equal(platform.sent[0]?.parsed.subject, 'Hello Noah')
    })

    test('are at most 60 to one address within an hour', async () => {
      const { host, platform } = await shared()
      const chat_jid = 'email-shop:address/loop@example.test'
      let refused: Awaited<ReturnType<typeof host.post>> | undefined
      for (let count = 0; count <= 60; count++)
        refused = await host.post('/send', { chat_jid, content: `mail ${count}`, key: `loop ${count}` })
      assert.equal(platform.sent.length, 60)
      assert.equal(refused?.status, 400)
      assert.match(String(refused?.body.error), /60 mails within an hour/)
    })
  })

  suite('actions', () => {
    const shared = share()

    test('send files and speech, keep a copy, and forward mails with their files', async () => {
      const { host, platform, jid } = await shared()
      const id = await platform.say({
        text: 'see',
        file: { name: 'a.png', type: 'image/png', bytes: new Uint8Array(100) },
      })
      await until(() => host.stored.length === 1)
      const form = new FormData()
      for (const [name, value] of Object.entries({ chat_jid: jid, key: 'v1', filename: 'voice.ogg' }))
        form.set(name, value)
      form.set('file', new File(['speech'], 'voice.ogg', { type: 'audio/ogg' }))
      assert.equal((await host.post('/send-voice', form)).status, 200)
      assert.deepEqual(platform.sent[0]?.files, [{ name: 'voice.ogg', bytes: 6 }])
      assert.equal(platform.sent[0]?.parsed.attachments[0]?.mimeType, 'audio/ogg')
      const target_jid = 'email-shop:address/noah@example.test'
      const forward = { source_jid: jid, target_jid, source_msg_id: id, comment: 'for you', key: 'w1' }
      assert.equal((await host.post('/forward', forward)).status, 200)
      const [, forwarded, comment] = platform.sent
      assert.match(forwarded?.text ?? '', /Forwarded message.*From: mia.*see/s)
      assert.deepEqual([forwarded?.files, forwarded?.to], [[{ name: 'a.png', bytes: 100 }], 'noah@example.test'])
      assert.equal(comment?.text, 'for you')
      const other = { ...forward, source_jid: target_jid, key: 'w2' }
      assert.equal((await host.post('/forward', other)).status, 400)
      assert.match(
        platform.server.doveadm('mailbox', 'status', '-u', platform.address, 'messages', 'Sent'),
        /messages=3/,
      )
    })

    test('read the history of a person and of a thread, up to a time', async () => {
      const { host, platform, jid } = await shared()
      const one = await platform.mail({ Subject: 'First' }, 'one')
      await until(() => host.stored.length === 1)
      const { topic } = host.stored[0] ?? {}
      const { body } = await host.post('/send', { chat_jid: jid, content: 'answer', key: 'h1', thread_id: topic })
      await platform.mail({ Subject: 'Other', Cc: 'noah@example.test' }, 'of a group')
      await until(() => host.stored.length === 2)
      const read = async (more = '') =>
        (await host.get(`/v1/history?jid=${encodeURIComponent(jid)}&limit=50${more}`)).body.messages as {
          id: string
          content: string
          is_from_me?: boolean
          topic?: string
        }[]
      const all = await read()
      const ours = all.filter((message) => message.topic === topic)
      assert.deepEqual(
        ours.map(({ id, content, is_from_me }) => [id, content, is_from_me]),
        [
          [one, 'Subject: First\n\none', undefined],
          [body.id, 'answer', true],
        ],
      )
      assert.ok(!all.some(({ content }) => content.includes('of a group')))
      assert.deepEqual(await read('&before=2020-01-01T00:00:00Z'), [])
      assert.equal((await host.get(`/v1/history?jid=${encodeURIComponent(jid)}&before=yesterday`)).status, 400)
    })

    test('that e-mail does not have are not declared', async () => {
      const { host, jid } = await shared()
      const { send_text, send_file, send_voice, fwd, fetch_history, dedupe, ...others } = host.capabilities
      assert.ok(send_text && send_file && send_voice && fwd && fetch_history && dedupe)
      assert.ok(
        Object.values(others).every((has) => !has),
        JSON.stringify(others),
      )
      for (const chat_jid of ['email-shop:lobby', 'email-shop:address/no address', 'email:address/x@example.test'])
        assert.equal((await host.post('/send', { chat_jid, content: 'x', key: `k ${chat_jid}` })).status, 400)
      assert.equal((await host.post('/like', { chat_jid: jid, target_id: 'x' })).status, 501)
    })
  })

  suite('the mailbox', () => {
    test('is followed from the time of the connection, through the mail server of the sender', async (t) => {
      const platform = await openEmailAccount(t, await server())
      await platform.mail({}, 'before')
      const host = await openFakeHost(t)
      const directory = join(tempDir(t), 'adapter')
      mkdirSync(directory)
      const { server: mail, address } = platform
      await startAdapter(t, host, { platform: 'email', account: 'email', directory, ...platform.account })
      await sendOverSmtp(
        { host: mail.host, port: 25 },
        'mia@example.test',
        address,
        'From: mia@example.test\r\nSubject: Hi\r\n\r\nafter\r\n',
      )
      await until(() => host.stored.length === 1)
      assert.partialDeepStrictEqual(host.stored[0], {
        content: 'Subject: Hi\n\nafter',
        verb: 'untrusted',
        sender: 'anon:mia@example.test',
      })
    })

    test('is found again after the server has numbered it anew', async (t) => {
      const { host, platform, restart, adapter } = await setUp(t)
      await platform.say({ text: 'one' })
      await until(() => host.stored.length === 1)
      await adapter.stop()
      await platform.say({ text: 'two' })
      const validity = String(Math.floor(Date.now() / 1000) + 1000)
      platform.server.doveadm('mailbox', 'update', '-u', platform.address, '--uid-validity', validity, 'INBOX')
      await restart()
      await platform.say({ text: 'three' })
      await until(() => host.stored.length === 3)
      assert.deepEqual(
        host.stored.map(({ content }) => content),
        ['one', 'two', 'three'],
      )
    })

    test('is followed over a restart of the server, and over mail that cannot be read', async (t) => {
      const { host, platform } = await setUp(t)
      await platform.raw('no header at all')
      await platform.raw(
        `From: mia@example.test\r\n${'Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n'.repeat(80)}`,
      )
      await platform.mail({ 'Auto-Submitted': 'auto-replied' }, 'I am on holiday')
      await platform.say({ text: 'one' })
      await until(() => host.stored.some(({ content }) => content === 'one'))
      platform.server.kick(platform.address)
      await platform.say({ text: 'two' })
      await until(() => host.stored.some(({ content }) => content === 'two'))
      assert.ok(!host.stored.some(({ content }) => content?.includes('holiday')))
      await until(async () => (await host.get('/health')).body.status === 'ok')
    })
  })

  suite('the account', () => {
    const access = async (ports: { readonly imap: number; readonly smtp: number }, password = EMAIL_PASSWORD) => {
      const { host } = await server()
      const address = 'check@example.test'
      return {
        settings: { address, user: address, imap: `${host}:${ports.imap}`, smtp: `${host}:${ports.smtp}` },
        secrets: { password },
        signal: new AbortController().signal,
      }
    }
    const isRefused = (words: RegExp) => (error: unknown) => {
      assert.ok(error instanceof PlatformError)
      assert.equal(error.kind, 'refused')
      assert.match(error.message, words)
      assert.doesNotMatch(error.message, new RegExp(EMAIL_PASSWORD))
      return true
    }

    test('is checked over TLS and STARTTLS, and refused with a certificate of a stranger or a wrong password', async (t) => {
      const { certificate, setPassword } = await server()
      setPassword('check@example.test', EMAIL_PASSWORD)
      await assert.rejects(
        checkAccount(await access({ imap: 993, smtp: 465 })),
        isRefused(/certificate of the IMAP server/),
      )
      const trusted = getCACertificates('default')
      setDefaultCACertificates([...trusted, certificate])
      t.after(() => setDefaultCACertificates(trusted))
      for (const ports of [
        { imap: 993, smtp: 465 },
        { imap: 143, smtp: 587 },
      ])
        assert.equal((await checkAccount(await access(ports))).name, 'check@example.test')
      await assert.rejects(
        checkAccount(await access({ imap: 993, smtp: 465 }, 'wrong')),
        isRefused(/IMAP server does not accept the user name and the password/),
      )
      await assert.rejects(
        checkAccount(await access({ imap: 993, smtp: 9 })),
        (error) => error instanceof PlatformError && error.kind === 'unavailable',
      )
    })
  })
})
