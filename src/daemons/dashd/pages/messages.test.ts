import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { openConversationHost } from '../../../../test/support/conversation-host.ts'
import { type Dashboard, serveDashboard } from '../../../../test/support/dashboard.ts'
import { run } from '../../../../test/support/sql.ts'
import { recordOutbound } from '../../../core/delivery/outbox.ts'
import { groupDirs } from '../../../core/layout.ts'
import { recordInbound } from '../../../core/messages/inbound.ts'
import { type InboxState, inbox } from '../../../core/messages/inbox.ts'
import { writeContextOf } from '../../../core/turns/rounds.ts'
import { turnLogFile } from '../../../core/turns/turn-log-files.ts'
import { timestamp } from '../../../lib/clock.ts'

/** Ends an attribute and an element, turns the text around, and moves the cursor of a terminal. */
const HOSTILE = `"><script>alert(1)</script>\u202egnp.exe\u0007 ${'&'}amp;`

interface MessagesDashboard extends Dashboard {
  receive(
    content: string,
    row?: { state?: InboxState; folder?: string; reason?: string; sender?: string },
  ): Promise<string>
  send(content: string, row?: { folder?: string; state?: string; error?: string }): Promise<string>
  stateOf(id: string): Promise<string | undefined>
}

async function open(t: TestContext): Promise<MessagesDashboard> {
  // No daemon routes messages or runs turns, so that a retried message stays where it is.
  const dash = await serveDashboard(t, { daemons: ['authd', 'dashd', 'proxyd', 'webd'] })
  const { host } = dash
  const context = writeContextOf(host)
  return {
    ...dash,
    receive: (content, { state = 'answered', folder = 'team', reason, sender = 'telegram:7' } = {}) =>
      host.engine.transaction(async (tx) => {
        const jid = 'telegram:1'
        const { id, seq } = await recordInbound(tx, context, { jid, sender, content, reach: 'all' })
        const place = { jid, topic: '', chat_topic: '', sender, verb: 'message' }
        const updated_at = timestamp(host.clock.now())
        await inbox.insert(tx, { message_seq: seq, id, folder, ...place, state, reason, updated_at })
        for (const table of ['filing', 'routing'])
          await run(tx, `update ${table} set last_seq = $1 where id = 1`, [seq])
        return id
      }),
    send: (content, { folder = 'team', state = 'sent', error } = {}) =>
      host.engine.transaction(async (tx) => {
        const { id } = await recordOutbound(tx, context, host.rules, { jid: 'telegram:1', topic: '', folder, content })
        await run(tx, 'update outbox set state = $2, error = $3 where id = $1', [id, state, error ?? null])
        return id
      }),
    stateOf: async (id) => (await host.engine.read((tx) => inbox.find(tx, { id })))?.state,
  }
}

const text = async (response: Promise<Response>): Promise<string> => (await response).text()

/** The fields of the form with this action, as a browser would send them. */
function formOf(page: string, action: string): Record<string, string> {
  const forms = [...page.matchAll(/<form class="inline"[^>]*>([\s\S]*?)<\/form>/g)].map(([, body = '']) => body)
  const body = forms.find((form) => form.includes(`name="action" value="${action}"`)) ?? ''
  const fields = [...body.matchAll(/name="([^"]+)" value="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value])
  return Object.fromEntries(fields)
}

suite('the pages of messages', () => {
  test('an operator sees all messages, an administrator those of their folders, a stranger nothing', async (t) => {
    const dash = await open(t)
    const own = await dash.receive('for the team')
    const other = await dash.receive('for others', { folder: 'other' })
    const operator = await text(dash.operator.get('/dash/messages'))
    assert.ok(operator.includes('for the team') && operator.includes('for others'))
    const admin = await text(dash.admin.get('/dash/messages'))
    assert.ok(admin.includes('for the team') && !admin.includes('for others'))
    assert.ok(!admin.includes(other))
    assert.equal((await dash.admin.get(`/dash/messages/${own}`)).status, 200)
    for (const path of ['/dash/messages', `/dash/messages/${own}`, '/dash/messages?format=json', '/dash/audit']) {
      const refused = await dash.stranger.get(path)
      assert.equal(refused.status, 404, path)
      assert.ok(!(await refused.text()).includes('for the team'))
    }
    const [hidden, missing] = [
      await dash.admin.get(`/dash/messages/${other}`),
      await dash.admin.get('/dash/messages/none'),
    ]
    assert.deepEqual([hidden.status, missing.status], [404, 404])
    assert.equal(await hidden.text(), await missing.text())
    assert.equal((await dash.admin.get('/dash/messages?folder=other')).status, 404)
  })

  test('filters are in the URL, and a wrong one is explained', async (t) => {
    const dash = await open(t)
    await dash.receive('one', { state: 'failed', reason: 'it broke' })
    await dash.receive('two', { sender: 'telegram:8' })
    await dash.send('three')
    const failed = await text(dash.operator.get('/dash/messages?state=failed'))
    assert.ok(failed.includes('>one<') && !failed.includes('>two<') && failed.includes('it broke'))
    assert.match(failed, /<option value="failed" selected>/)
    const rows: { text: string; state: string }[] = JSON.parse(
      await text(dash.operator.get('/dash/messages?direction=all&format=json&limit=1')),
    )
    assert.deepEqual(
      rows.map((row) => [row.text, row.state]),
      [
        ['three', 'sent'],
        ['two', 'answered'],
        ['one', 'failed'],
      ],
    )
    const csv = await text(dash.operator.get('/dash/messages?sender=telegram%3A8&format=csv'))
    assert.equal(csv.trim().split('\r\n').length, 2)
    const first = await text(dash.operator.get('/dash/messages?limit=1'))
    const [, next = ''] = /<a href="([^"]+)" rel="next">/.exec(first) ?? []
    assert.ok((await text(dash.operator.get(next.replaceAll('&amp;', '&')))).includes('>one<'))
    for (const [query, sentence] of [
      ['state=lost', /state must be one of/i],
      ['q=%22open', /unterminated|syntax|quote/i],
      ['since=yesterday', /must be an RFC 3339 time/],
      ['after=x', /not a cursor of this list/],
    ] as const)
      assert.match(await text(dash.operator.get(`/dash/messages?${query}`)), sentence, query)
  })

  test('are live only while something can change', async (t) => {
    const dash = await open(t)
    const isLive = async (path: string): Promise<boolean> =>
      (await text(dash.operator.get(path))).includes('/dash/live')
    const [ended, waiting] = [await dash.receive('one'), await dash.receive('two', { state: 'waiting' })]
    const [sent, sending] = [await dash.send('three'), await dash.send('four', { state: 'pending' })]
    for (const path of ['/dash/messages', '/dash/messages?until=2999-01-01T00:00']) assert.ok(await isLive(path), path)
    for (const id of [waiting, sending]) assert.ok(await isLive(`/dash/messages/${id}`))
    for (const id of [ended, sent]) assert.ok(!(await isLive(`/dash/messages/${id}`)))
    assert.ok(!(await isLive('/dash/messages?until=2001-01-01T00:00')))
  })

  test('search finds messages by text, also of one folder', async (t) => {
    const dash = await open(t)
    await dash.receive('the invoice is wrong')
    await dash.receive('another invoice', { folder: 'other' })
    const found = await text(dash.operator.get('/dash/messages?q=invoice'))
    assert.equal(found.match(/<mark>invoice<\/mark>/g)?.length, 2)
    assert.equal(
      (await text(dash.operator.get('/dash/messages?q=invoice&folder=other'))).match(/<mark>invoice<\/mark>/g)?.length,
      1,
    )
    assert.equal((await text(dash.admin.get('/dash/messages?q=invoice'))).match(/<mark>invoice<\/mark>/g)?.length, 1)
  })

  test('a search has pages, each hit on one of them, and exports all', async (t) => {
    const dash = await open(t)
    for (let n = 0; n < 5; n++) await dash.receive(`invoice number n${n}`)
    const hits: string[] = []
    let path: string | undefined = '/dash/messages?q=invoice&limit=2'
    for (let page = 0; path !== undefined; page++) {
      assert.ok(page < 3)
      const body = await text(dash.operator.get(path))
      hits.push(...[...body.matchAll(/number (n\d)/g)].map(([, hit = '']) => hit))
      path = /href="(\/dash\/messages\?[^"]*after=[^"]*)"/.exec(body)?.[1]?.replaceAll('&amp;', '&')
    }
    assert.deepEqual(hits.toSorted(), ['n0', 'n1', 'n2', 'n3', 'n4'])
    assert.equal(JSON.parse(await text(dash.operator.get('/dash/messages?q=invoice&format=json'))).length, 5)
    assert.match(await text(dash.operator.get('/dash/messages?q=invoice&after=x')), /not a cursor of this list/)
  })

  test('shows texts of strangers as text', async (t) => {
    const dash = await open(t)
    const id = await dash.receive(HOSTILE, { state: 'failed', reason: HOSTILE, sender: 'telegram:<b>' })
    await dash.send(HOSTILE, { state: 'failed', error: HOSTILE })
    const long = await dash.receive('long line\n'.repeat(500))
    for (const path of [
      '/dash/messages?direction=all',
      `/dash/messages/${id}`,
      `/dash/messages?q=${encodeURIComponent(HOSTILE)}`,
      `/dash/messages?folder=${encodeURIComponent(HOSTILE)}`,
      `/dash/audit?actor=${encodeURIComponent(HOSTILE)}`,
      `/dash/messages/${encodeURIComponent(HOSTILE)}`,
    ]) {
      const page = await text(dash.operator.get(path))
      assert.ok(!page.includes('<script>alert') && !page.includes('<b>'), path)
    }
    for (const path of ['/dash/messages?direction=all', '/dash/messages?q=gnp', `/dash/messages/${id}`]) {
      const page = await text(dash.operator.get(path))
      assert.ok(page.includes('gnp') && !page.includes('\u202e') && !page.includes('\u0007'), path)
    }
    assert.match(await text(dash.operator.get(`/dash/messages/${long}`)), /<details id="message-text" class="fold"/)
  })

  test('finds words in the log of a turn and marks them among the other lines', async (t) => {
    const dash = await open(t)
    const conversation = await openConversationHost(t, 'sqlite', { ...dash, operator: async () => {} })
    const id = await conversation.ask('why?', { folder: 'team' })
    const { turn } = await conversation.mustClaim()
    await conversation.end(turn)
    const { layout } = dash.host
    assert.ok(layout)
    const file = turnLogFile(groupDirs(layout, 'team'), turn.id, dash.clock.now())
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, 'started\nAn error (a+b) <i>\nsecond error\nended\n')
    for (const path of [`/dash/messages/${id}`, `/dash/turns/${turn.id}`]) {
      const page = await text(dash.admin.get(`${path}?find=ERROR`))
      assert.match(
        page,
        /started\nAn <mark id="found-1">error<\/mark> \(a\+b\) &lt;i&gt;\nsecond <mark id="found-2">/,
        path,
      )
      assert.match(page, /2 matches: <a href="#found-1">1<\/a>/)
      assert.match(await text(dash.admin.get(`${path}?find=a%2Bb`)), /<mark id="found-1">a\+b<\/mark>/)
      assert.match(await text(dash.admin.get(`${path}?find=absent`)), /Nothing in these lines matches/)
      assert.ok(!(await text(dash.admin.get(path))).includes('<mark'))
    }
  })

  test('the page of a failed message has its reason and a retry, which runs once', async (t) => {
    const dash = await open(t)
    const id = await dash.receive('how much?', { state: 'failed', reason: 'the model is asleep' })
    const page = await text(dash.admin.get(`/dash/messages/${id}`))
    for (const part of ['the model is asleep', 'how much?', 'By the routes of now', 'There is no log'])
      assert.ok(page.includes(part), part)
    const fields = formOf(page, 'retry')
    assert.equal(fields.id, id)
    const sent = await dash.admin.post(`/dash/messages/${id}`, fields)
    assert.deepEqual([sent.status, await dash.stateOf(id)], [303, 'waiting'])
    assert.equal((await dash.admin.post(`/dash/messages/${id}`, fields)).status, 409)
    const refused = await dash.admin.post(`/dash/messages/${id}`, { ...fields, form_key: 'another' })
    assert.equal(refused.status, 409)
    assert.match(await refused.text(), /is waiting/)
    const after = await text(dash.admin.get(`/dash/messages/${id}`))
    assert.ok(after.includes('retried by') && after.includes('the model is asleep'))
    assert.equal(formOf(after, 'retry').id, undefined)
    const stranger = await dash.stranger.post(`/dash/messages/${id}`, { ...fields, csrf: dash.stranger.csrf })
    assert.equal(stranger.status, 404)
    const audited = await text(dash.operator.get('/dash/audit?actor=github%3Ateam-admin'))
    assert.equal(audited.match(/>inbox\.retry</g)?.length, 1)
  })

  test('retries all failed messages of a page or of all pages, and asks before a delivery with an unknown end', async (t) => {
    const dash = await open(t)
    const ids = [await dash.receive('one', { state: 'failed', reason: 'it broke' })]
    await dash.send('three', { state: 'unknown', error: 'no answer' })
    assert.ok(!(await text(dash.admin.get('/dash/messages?direction=all'))).includes('Retry all'))
    ids.push(await dash.receive('two', { state: 'refused', reason: 'over budget' }))
    assert.ok((await text(dash.admin.get('/dash/messages?direction=all'))).includes('Retry all 2 on this page'))
    const page = await text(dash.admin.get('/dash/messages'))
    assert.ok(page.includes('Retry all 2 on this page'))
    assert.equal((await dash.admin.post('/dash/messages', formOf(page, 'retry_all'))).status, 303)
    for (const id of ids) assert.equal(await dash.stateOf(id), 'waiting')
    const more = await Promise.all(
      ['three', 'four', 'five'].map((content) => dash.receive(content, { state: 'failed' })),
    )
    const foreign = await dash.receive('of others', { state: 'failed', folder: 'other' })
    assert.ok((await text(dash.admin.get('/dash/messages?limit=1'))).includes('>All failed messages<'))
    const path = '/dash/messages?state=failed&limit=1'
    const matching = formOf(await text(dash.admin.get(path)), 'retry_matching')
    assert.match(await text(dash.admin.post(path, matching)), /also those on other pages/)
    assert.equal((await dash.admin.post('/dash/messages', { ...matching, confirmed: 'yes' })).status, 400)
    assert.equal((await dash.admin.post(path, { ...matching, confirmed: 'yes' })).status, 303)
    assert.match(await text(dash.admin.get(path)), /No message matches/)
    for (const one of more) assert.equal(await dash.stateOf(one), 'waiting')
    assert.equal(await dash.stateOf(foreign), 'failed')
    const id = await dash.send('hello', { state: 'unknown', error: 'no answer' })
    const home = await text(dash.admin.get('/dash/'))
    // The page of channels is only for operators.
    assert.ok(home.includes(`href="/dash/messages/${id}"`) && !home.includes('href="/dash/channels"'))
    const sent = await text(dash.admin.get(`/dash/messages/${id}`))
    const fields = formOf(sent, 'redeliver')
    const asked = await dash.admin.post(`/dash/messages/${id}`, fields)
    assert.match(await asked.text(), /may have arrived already/)
    assert.equal((await dash.admin.post(`/dash/messages/${id}`, { ...fields, confirmed: 'yes' })).status, 303)
    assert.ok(!(await text(dash.admin.get(`/dash/messages/${id}`))).includes('badge warn'))
  })
})

suite('the audit page', () => {
  test('lists changes and denied calls by result, actor and folder', async (t) => {
    const dash = await open(t)
    const id = await dash.receive('one', { state: 'failed', folder: 'other' })
    await dash.admin.post(`/dash/messages/${id}`, { action: 'retry', form: 'retry', id, form_key: 'k' })
    const all = await text(dash.operator.get('/dash/audit'))
    assert.ok(all.includes('groups.add') && all.includes('inbox.retry'))
    const denied = await text(dash.operator.get('/dash/audit?category=authz'))
    assert.ok(denied.includes('inbox.retry') && !denied.includes('>groups.add<'))
    const rows: { action: string; result: string; actor: string }[] = JSON.parse(
      await text(dash.operator.get('/dash/audit?category=authz&format=json')),
    )
    assert.ok(rows.every(({ actor, result }) => actor === 'github:team-admin' && result === 'denied'))
    assert.ok(!(await text(dash.operator.get('/dash/audit?folder=team'))).includes('groups.add'))
    assert.ok(!(await text(dash.admin.get('/dash/audit'))).includes('groups.add'))
    assert.match(await text(dash.operator.get('/dash/audit?category=x')), /category must be one of/i)
  })
})
