// What visitors of a link see of the agent.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { openLinkHost } from '../../../test/support/link-host.ts'
import { groupDirs } from '../../core/layout.ts'
import { groupsResource } from '../../resources/groups.ts'
import { drawIcon } from '../../web/chat/icon.ts'

const HTML = { Accept: 'text/html' }
const PNG = drawIcon({ size: 16, isMaskable: false })

test('a link shows the agent of its folder in its page, its widget, its manifest and the pages of rounds', async (t) => {
  const on = await testHost(t)
  await on.groups('main', 'team')
  const s = await openLinkHost(t, { on })
  const link = await s.mintChat({ folder: 'team' })
  const { set } = groupsResource.verbs
  await on.cli.call(set, { folder: 'team', key: 'name', to: 'Ada <b>' })
  await on.cli.call(set, { folder: 'team', key: 'greeting', to: 'Hello.' })
  const page = await s.to(`GET ${link.chat}`, { headers: HTML })
  assert.match(page.text, /<title>Ada &lt;b&gt;<\/title>/)
  assert.match(page.text, /data-name="Ada &lt;b&gt;" data-tint="#[0-9a-f]{6}" data-greeting="Hello\." data-folder=""/)
  const turn = await s.speak(link, 'why?')
  assert.match((await s.to(`GET ${link.chat}${turn}`, { headers: HTML })).text, /<h1 dir="auto">Ada &lt;b&gt;<\/h1>/)
  assert.equal((await s.to(`GET ${link.chat}manifest.webmanifest`)).body.short_name, 'Ada <b>')
  assert.ok((await s.to(`GET ${link.chat}widget.js`)).text.includes('"name":"Ada \\u003cb>"'))

  await on.cli.call(set, { folder: 'team', key: 'name', to: 'Bob' })
  assert.ok((await s.to(`GET ${link.chat}widget.js`)).text.includes('"name":"Bob"'), 'at once')
  const other = await s.mintChat({ folder: 'main', jid_suffix: 'other' })
  assert.match((await s.to(`GET ${other.chat}`, { headers: HTML })).text, /<title>svc<\/title>/)
})

test('the picture of an agent is served at its links, revalidated, and only as an image', async (t) => {
  const on = await testHost(t)
  await on.groups('main', 'team')
  const s = await openLinkHost(t, { on })
  const link = await s.mintChat({ folder: 'team' })
  const path = `${link.chat}picture`
  const missing = await s.to(`GET ${path}`)
  assert.deepEqual([missing.status, missing.body.detail], [404, 'there is no picture'])
  const { home } = groupDirs(on.host.layout ?? assert.fail(), 'team')
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'me.png'), PNG)
  writeFileSync(join(home, 'PERSONA.md'), '---\npicture: me.png\n---\n')
  const served = await s.to(`GET ${path}`)
  assert.deepEqual([served.status, served.headers.get('content-type')], [200, 'image/png'])
  assert.deepEqual(
    ['cache-control', 'content-security-policy', 'cross-origin-resource-policy', 'x-content-type-options'].map((name) =>
      served.headers.get(name),
    ),
    ['private, no-cache', "default-src 'none'; sandbox; frame-ancestors 'none'", 'cross-origin', 'nosniff'],
  )
  assert.equal(served.headers.get('content-length'), String(PNG.length))
  assert.match((await s.to(`GET ${link.chat}`, { headers: HTML })).text, /<img src="\.\/picture" alt="">/)
  const etag = served.headers.get('etag') ?? assert.fail()
  assert.equal((await s.to(`GET ${path}`, { headers: { 'If-None-Match': etag } })).status, 304)
  writeFileSync(join(home, 'me.png'), '<script>alert(1)</script>')
  assert.equal((await s.to(`GET ${path}`, { headers: { 'If-None-Match': etag } })).status, 404)
  rmSync(join(home, 'me.png'))
  assert.equal((await s.to(`HEAD ${path}`)).status, 404)
  assert.equal((await s.to(`POST ${path}`)).status, 405)
  await s.revoke(link)
  assert.equal((await s.to(`GET ${path}`)).status, 401)
})
