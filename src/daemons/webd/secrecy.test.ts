// Raw tokens are in no log, no row, no error and no page (decision L15, S1, S3).
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { freshStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { json, type Links, links, openStream } from '../../../test/support/links.ts'
import { raw } from '../../../test/support/serve.ts'
import { proofOf } from '../../core/link-token.ts'
import { hashToken } from '../../core/route-tokens.ts'
import type { Tx } from '../../store/engine.ts'
import { run } from '../../store/statement.ts'
import { TABLES } from '../host.ts'

async function everyRow(s: Links): Promise<string> {
  const all = await s.host.engine.read(async (tx: Tx) => {
    const rows = []
    for (const { name } of TABLES) rows.push(...(await run(tx, `select * from ${name}`)).rows)
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
  test('L15, S1, S3, W6: a token that was used in every way is written down nowhere', async (t) => {
    const store = await freshStore(t, engine)
    const on = await testHost(t, engine, store)
    await on.groups('main')
    const s = await links(t, { on, daemons: ['webd', 'runed', 'gated', 'proxyd', 'routd'] })
    const [chat, hook] = [await s.mintChat(), await s.mintHook()]
    const proof = proofOf(hashToken(chat.token), s.host.keyring)
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
      answers.push(await raw(s.url('webd'), `POST /hook/${token} HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n`))
      answers.push(await raw(s.url('webd'), `POST http://b/hook/${token} HTTP/1.1\r\nHost: a\r\n\r\n`))
      // Through the front door as well.
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
    // What may be written down is the start of the hash.
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

test('each request at a link is one line in the log, with the path, the status, the time and who asked', async (t) => {
  const s = await links(t)
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
