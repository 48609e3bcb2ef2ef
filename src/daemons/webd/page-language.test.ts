import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { openLinkHost } from '../../../test/support/link-host.ts'

const UNKNOWN = 'A'.repeat(43)

test('pages of a link are in the language that the browser prefers, or that the URL names', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat()
  const turn = await s.speak(link, 'why?')
  const languageOf = async (path: string, acceptLanguage?: string): Promise<string> => {
    const headers = {
      Accept: 'text/html',
      ...(acceptLanguage === undefined ? {} : { 'Accept-Language': acceptLanguage }),
    }
    const { text, headers: answered } = await s.to(`GET ${path}`, { headers })
    assert.equal(answered.get('vary'), 'Accept-Language')
    const policy = answered.get('content-security-policy') ?? ''
    for (const [, script = ''] of text.matchAll(/<script>([\s\S]*?)<\/script>/g))
      assert.ok(policy.includes(`'sha256-${createHash('sha256').update(script).digest('base64')}'`))
    return /<html lang="([\w-]+)">/.exec(text)?.[1] ?? assert.fail(text)
  }
  for (const path of [link.chat, `${link.chat}${turn}`, `/chat/${UNKNOWN}/`]) {
    assert.equal(await languageOf(path), 'en')
    assert.equal(await languageOf(path, 'de-AT,de;q=0.9,en;q=0.8'), 'de')
    assert.equal(await languageOf(path, 'en-GB, de;q=0.9'), 'en')
    assert.equal(await languageOf(path, 'de;q=0.4, fr, en;q=0.5'), 'en')
    assert.equal(await languageOf(path, 'fr, *'), 'en')
    assert.equal(await languageOf(path, `${'a-'.repeat(2000)},;;q=,de`), 'de')
    assert.equal(await languageOf(`${path}?lang=de`, 'en'), 'de')
    assert.equal(await languageOf(`${path}?lang=de-CH`), 'de')
    assert.equal(await languageOf(`${path}?lang=en`, 'de'), 'en')
    assert.equal(await languageOf(`${path}?lang=%00&lang=xx`, 'de'), 'de')
    assert.equal(await languageOf(`${path}?lang=`), 'en')
  }
})

test('the language of a page keeps no problem document from programs', async (t) => {
  const s = await openLinkHost(t)
  const { body } = await s.to(`GET /chat/${UNKNOWN}/?lang=de`, { headers: { 'Accept-Language': 'de' } })
  assert.equal(body.detail, 'there is no such link, or it was revoked')
})
