// Raw tokens appear in no log, row, error or page. See docs/decisions.md#tokens-stay-secret.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { freshStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { json, type LinkHost, openLinkHost, openStream } from '../../../test/support/link-host.ts'
import { sendRaw } from '../../../test/support/served-host.ts'
import { run } from '../../../test/support/sql.ts'
import { createTokenProof, hashToken } from '../../core/links/link-token.ts'
import type { Tx } from '../../store/engine.ts'
import { PRODUCT_TABLES } from '../tables.ts'

async function everyRow(s: LinkHost): Promise<string> {
  const all = await s.host.engine.read(async (tx: Tx) => {
    const rows = []
    for (const { name } of PRODUCT_TABLES) rows.push(...(await run(tx, `select * from ${name}`)).rows)
    return rows
  })
  const texts = all.flatMap((row) =>
    Object.values(row).map((value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value),
    ),
  )
  return texts.join('\n')
}

onEveryEngine('secrecy', (engine) => {
  test('a token appears in no log, row, metric or response', async (t) => {
    const store = await freshStore(t, engine)
    const on = await testHost(t, engine, store)
    await on.groups('main')
    const s = await openLinkHost(t, { on, daemons: ['webd', 'runed', 'gated', 'proxyd', 'routd'] })
    const [chat, hook] = [await s.mintChat(), await s.mintHook()]
    const proof = createTokenProof(hashToken(chat.token), s.host.keyring)
    const canaries = [chat.token, hook.token, proof]
    const answers: string[] = []
    const ask = async (request: string, init?: Omit<RequestInit, 'method'>): Promise<void> => {
      const { text, headers } = await s.to(request, init)
      answers.push(text, ...[...headers].flatMap(([name, value]) => (name === 'location' ? [] : [value])))
    }
    const turn = await s.speak(chat, '/say x')
    await s.ended(chat, turn)
    const html = { headers: { Accept: 'text/html' } }
    for (const token of canaries) {
      for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'POST', 'DELETE']) {
        for (const rest of [
          '',
          '/',
          `/${turn}`,
          `/${turn}?after=x`,
          '/nothing',
          '/widget.js',
          `/${token}`,
          `/x/${token}`,
        ])
          await ask(`${method} /chat/${token}${rest}`)
        for (const rest of ['', '/', '/more', `/${token}`]) await ask(`${method} /hook/${token}${rest}`)
        for (const path of [`/chat//${token}`, `/hook//${token}`, `/${token}`, `/v1/${token}`, `/chat/x/${token}`])
          await ask(`${method} ${path}`)
        await ask(`${method} /chat/%${token.charCodeAt(0).toString(16)}${token.slice(1)}/`)
      }
      await ask(`GET /chat/${token}/`, html)
      await ask(`GET /chat/${token}/${turn}`, html)
      await ask(`GET /chat/${token}x/`, html)
      await ask(`POST /chat/${token}/`, json({ content: 5 }))
      await ask(`POST /chat/${token}/`, { body: '{', headers: { 'Content-Type': 'application/json' } })
      answers.push(
        await sendRaw(s.url('webd'), `POST /hook/${token} HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n`),
      )
      answers.push(await sendRaw(s.url('webd'), `POST http://b/hook/${token} HTTP/1.1\r\nHost: a\r\n\r\n`))
      // Through proxyd as well.
      for (const path of [`/hook/${token}`, `/chat/${token}/`, `/chat//${token}`, `/HOOK/${token}`])
        answers.push(await (await fetch(s.url() + path, { method: 'POST', body: 'x' })).text())
      const stream = await openStream(t, `${s.url('webd')}/chat/${token}/events`)
      stream.cut()
      answers.push(stream.text())
    }
    await s.revoke(chat)
    await ask(`POST ${chat.hook}`)
    const rows = await everyRow(s)
    const metrics = await (await fetch(`${s.url('webd')}/metrics`)).text()
    await s.close()
    const logs = JSON.stringify(s.logged())
    // The start of the hash may be logged.
    assert.ok(logs.includes(`/hook/${hash('sha256', hook.token, 'hex').slice(0, 8)}`))
    const written = { answers: answers.join('\n'), logs, rows, metrics, printed: s.printed.join('\n') }
    for (const [where, text] of Object.entries(written))
      for (const token of canaries) assert.ok(!text.includes(token), `${where} hold ${token}`)
    if (!('path' in store)) return
    for (const file of readdirSync(dirname(store.path))) {
      const bytes: string = readFileSync(join(dirname(store.path), file), 'latin1')
      for (const token of canaries) assert.ok(!bytes.includes(token), file)
    }
  })
})

test('each request at a link is one log line with path, status, time and client', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat()
  const before = s.logged().length
  await s.to(`POST ${link.hook}`)
  await s.to(`POST ${link.chat}`, json({}))
  const stream = await openStream(t, `${s.url('webd')}${link.chat}events?x=1`)
  stream.cut()
  await s.close()
  const lines = s.logged().slice(before)
  const shown = hash('sha256', link.token, 'hex').slice(0, 8)
  assert.deepEqual(
    lines
      .filter(({ path }) => String(path).includes(shown))
      .map(({ method, path, status, reason }) => [method, path, status, reason]),
    [
      ['POST', `/hook/${shown}`, 204, undefined],
      ['POST', `/chat/${shown}/`, 400, 'content is required'],
      ['GET', `/chat/${shown}/events`, 200, undefined],
    ],
  )
  for (const { level, daemon, remote, request, ms } of lines.filter(({ path }) => path)) {
    assert.deepEqual([level, daemon, remote], ['info', 'webd', '127.0.0.1'])
    assert.match(String(request), /^[0-9a-f-]{36}$/)
    assert.equal(typeof ms, 'number')
  }
})
