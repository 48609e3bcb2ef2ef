import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { type MailContext, readMail } from './mail-reader.ts'
import { threadIdOf, topicOf } from './mail-threads.ts'

const CONTEXT: MailContext = {
  ...{ account: 'email', address: 'help@example.com', authserv: 'mx.example.com' },
  recall: () => undefined,
}
const RUNS = { numRuns: runs(200, 5000) }
const receivedAt = new Date('2026-01-31T08:00:00Z')
const HEADERS = {
  'Authentication-Results': 'mx.example.com; dmarc=pass header.from=example.org',
  From: 'Mia Berg <Mia@example.org>',
  To: 'help@example.com',
  Subject: 'Hours',
  'Message-ID': '<one@example.org>',
}
type Headers = Readonly<Record<string, string>>

const bytesOfMail = (headers: Headers, text: string): Uint8Array =>
  Buffer.from(
    `${Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')}\r\n${text}`,
  )
const read = async (headers: Headers = {}, text = 'When are you open?', context = CONTEXT) => {
  const bytes = bytesOfMail({ ...HEADERS, ...headers }, text)
  return readMail(context, { bytes, size: bytes.length, receivedAt })
}
const eventOf = async (...given: Parameters<typeof read>) => (await read(...given))?.event

suite('a mail', () => {
  test('of one person is a message in the chat with that person, in the topic of its thread', async () => {
    assert.deepEqual(await eventOf(), {
      ...{ chat_jid: 'email:address/mia@example.org', id: 'one@example.org' },
      content: 'Subject: Hours\n\nWhen are you open?',
      ...{ sender: 'email:mia@example.org', sender_name: 'Mia Berg', timestamp: 1_769_846_400 },
      ...{ reply_to: undefined, topic: topicOf(threadIdOf('one@example.org')), is_group: false, chat_name: undefined },
      ...{ verb: undefined, attachments: [] },
    })
  })

  test('that answers stays in the thread, also if its References are shortened', async () => {
    const headers = {
      'Message-ID': '<three@example.org>',
      'In-Reply-To': '<two@example.com>',
      References: '<one@example.org> <two@example.com>',
    }
    const event = await eventOf(headers)
    assert.deepEqual(
      [event?.reply_to, event?.topic, event?.content],
      ['two@example.com', topicOf(threadIdOf('one@example.org')), 'When are you open?'],
    )
    const known = {
      subject: '',
      references: [],
      to: 'x@example.org',
      chat: 'address/x',
      thread: 'abcdefabcdef123456789012',
    }
    const recall: MailContext['recall'] = (id) => (id === 'two@example.com' ? known : undefined)
    const short = await eventOf({ ...headers, References: '<two@example.com>' }, 'x', { ...CONTEXT, recall })
    assert.equal(short?.topic, 'abcdefabcdef')
  })

  test('with other recipients belongs to a chat of their thread', async () => {
    const event = await eventOf({ Cc: 'Noah <noah@example.org>' })
    assert.partialDeepStrictEqual(event, {
      chat_jid: `email:thread/${threadIdOf('one@example.org')}`,
      ...{ is_group: true, chat_name: 'Hours', verb: 'mention' },
    })
    assert.equal((await eventOf({ To: 'noah@example.org', Cc: 'help@example.com' }))?.verb, undefined)
    // Own addresses with a tag, and those that the server delivered it for.
    for (const more of [
      { To: 'help+shop@example.com' },
      { 'Delivered-To': 'info@example.com', To: 'info@example.com' },
    ])
      assert.equal((await eventOf(more))?.is_group, false)
  })

  test('is not believed without the word of the receiving server', async () => {
    const results = (value: string) => ({ 'Authentication-Results': value })
    for (const odd of [
      results('mx.example.com; dmarc=fail header.from=example.org'),
      results('other.example.com; dmarc=pass header.from=example.org'),
      results('mx.example.com; dmarc=pass header.from=example.net'),
      results('mx.example.com; dkim=pass header.d=org'),
      results('mx.example.com (dmarc=pass); dmarc=none'),
      { From: '"mia@example.org" <eve@example.org>' },
      { From: 'mia@example.org, eve@example.org' },
      { From: 'mia@example.org\r\nFrom: eve@example.org' },
    ]) {
      const event = await eventOf(odd)
      assert.equal(event?.verb, 'untrusted', JSON.stringify(odd))
      assert.match(event?.sender ?? '', /^anon:/)
    }
    for (const good of [
      results('mx.example.com; dkim=pass header.d=example.org; dmarc=pass (p=none) header.from=example.org'),
      results('mx.example.com 1; spf=pass smtp.mailfrom=bounce@example.org'),
      results('MX.example.com; dkim=pass (2048-bit key) header.i=@example.org'),
    ])
      assert.equal((await eventOf(good))?.sender, 'email:mia@example.org', JSON.stringify(good))
  })

  test('counts without a setting only what stands above every Received', async () => {
    const context = { ...CONTEXT, authserv: undefined }
    const line = 'dmarc=pass header.from=example.org'
    const mail = async (...headers: string[]) => {
      const bytes = Buffer.from([...headers, 'From: mia@example.org', '', 'x'].join('\r\n'))
      return (await readMail(context, { bytes, size: bytes.length, receivedAt }))?.event.verb
    }
    assert.equal(await mail(`Authentication-Results: a; ${line}`, 'Received: by b'), undefined)
    assert.equal(await mail('Received: by b', `Authentication-Results: a; ${line}`), 'untrusted')
    assert.equal(await mail(`Authentication-Results: a; ${line}`), 'untrusted')
  })

  test('answers go to Reply-To only if the author is believed', async () => {
    const headers = { 'Reply-To': 'team@example.org' }
    assert.equal((await read(headers))?.record.to, 'team@example.org')
    assert.equal((await read({ ...headers, 'Authentication-Results': 'x' }))?.record.to, 'mia@example.org')
  })

  test('of programs, lists and the account itself is not answered', async () => {
    for (const headers of [
      { From: 'help@example.com' },
      { 'X-Loop': 'help@example.com' },
      { 'Auto-Submitted': 'auto-replied; owner-email="x"' },
      { Precedence: 'bulk' },
      { 'List-Id': '<news.example.org>' },
      { 'List-Unsubscribe': '<https://example.org>' },
      { 'Return-Path': '<>' },
      { 'Content-Type': 'multipart/report; boundary=x' },
      { From: 'MAILER-DAEMON@example.org' },
      { 'X-Auto-Response-Suppress': 'All' },
    ])
      assert.notEqual((await read(headers))?.ignored, undefined, JSON.stringify(headers))
    for (const headers of [{ 'Auto-Submitted': 'no' }, { 'Return-Path': '<mia@example.org>' }])
      assert.equal((await read(headers))?.ignored, undefined)
  })

  test('without a message id gets one from its headers, and a long one is shortened', async () => {
    const { 'Message-ID': _, ...rest } = HEADERS
    const bytes = bytesOfMail(rest, 'x')
    const one = await readMail(CONTEXT, { bytes, size: bytes.length, receivedAt })
    assert.match(one?.event.id ?? '', /^hash-[0-9a-f]{24}$/)
    assert.match((await eventOf({ 'Message-ID': `<${'a'.repeat(300)}@example.org>` }))?.id ?? '', /^hash-/)
  })

  test('brings its files, an invitation as text, and names what is too large', async () => {
    const calendar =
      'BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nSUMMARY:Lunch\\, outside\r\nDTSTART;TZID=Europe/Berlin:20260131T120000\r\nEND:VEVENT\r\nEND:VCALENDAR'
    const part = (type: string, text: string, more = '') => `--x\r\nContent-Type: ${type}\r\n${more}\r\n${text}\r\n`
    const attached = 'Content-Disposition: attachment; filename="a.txt"\r\n'
    const inner = 'From: noah@example.org\r\nSubject: Older\r\n\r\nwords of Noah'
    const text = `${part('text/plain', 'see')}${part('text/calendar; method=REQUEST', calendar)}${part('application/pdf', 'pdf', attached)}${part('message/rfc822', inner, 'Content-Disposition: attachment\r\n')}--x--`
    const headers = { 'Content-Type': 'multipart/mixed; boundary=x' }
    const event = await eventOf(headers, text)
    assert.match(
      event?.content ?? '',
      /see\n\[attached mail of noah@example.org: Older\]\nwords of Noah\n\[calendar request\]\nwhat: Lunch, outside\nstart: 2026-01-31 12:00 \(Europe\/Berlin\)/,
    )
    assert.deepEqual(
      event?.attachments?.map(({ filename }) => filename),
      ['invitation.ics', 'a.txt', 'mail.eml'],
    )
    const bytes = bytesOfMail({ ...HEADERS, ...headers }, text)
    const cut = await readMail(CONTEXT, { bytes, size: 50_000_000, receivedAt })
    assert.deepEqual(cut?.event.attachments, [])
    assert.match(cut?.event.content ?? '', /\[the file a\.txt is too large to receive\].*\[the mail has 48 MB/s)
  })

  test('of any bytes is read or rejected, and what is read is a valid event', async () => {
    const names = fc.constantFrom(
      ...['From', 'To', 'Cc', 'Reply-To', 'Subject', 'Message-ID', 'References', 'In-Reply-To', 'Content-Type', 'Date'],
      ...['Authentication-Results', 'Received', 'Content-Transfer-Encoding', 'Content-Disposition', 'Return-Path'],
    )
    const values = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.constantFrom(
        'mia@example.org',
        'multipart/mixed; boundary=x',
        '<a@b> <c@d>',
        'text/html',
        '=?utf-8?B?8A==?=',
        'base64',
        'a: b@c, d;',
      ),
    )
    const bodies = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('--x\r\nContent-Type: message/rfc822\r\n\r\nFrom: a\r\n\r\n--x--', '<p>a<'),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(names, values), { maxLength: 8 }), bodies, async (headers, body) => {
        const bytes = Buffer.from(
          `From: mia@example.org\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`,
        )
        const mail = await readMail(CONTEXT, { bytes, size: bytes.length, receivedAt }).catch(() => undefined)
        if (!mail) return
        const { chat_jid, id = '', sender = '', content = '', topic = '', attachments } = mail.event
        assert.match(chat_jid, /^email:(?:address\/[^\s@]+@[A-Za-z0-9.-]+|thread\/[0-9a-f]{24})$/)
        assert.ok(id !== '' && id.length <= 256 && content !== '' && !content.includes('\0'))
        assert.match(sender, /^(?:email|anon):[^\s@]+@[A-Za-z0-9.-]+$/)
        assert.match(topic, /^(?:[0-9a-f]{12})?$/)
        assert.ok(attachments?.every(({ data, filename }) => data instanceof Uint8Array && filename !== ''))
      }),
      RUNS,
    )
  })
})
