import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { serveDashboard } from '../../../../test/support/dashboard.ts'
import { addLinkStats } from '../../../core/links/link-stats.ts'
import { routeTokens } from '../../../core/links/route-tokens.ts'
import { messages } from '../../../core/messages/messages.ts'
import { audit } from '../../../registry/audit.ts'
import { routeTokensResource } from '../../../resources/route-tokens.ts'

const { issue_hook, issue_chat, list_of } = routeTokensResource.verbs
const PAGE = '/dash/folders/team?view=links'
const HOSTILE = `"'><script>alert(1)</script>`

suite('links of a folder', () => {
  test('an administrator mints a chat link whose token, QR code and snippet are in the answer only', async (t) => {
    const dash = await serveDashboard(t)
    const fields = { jid_suffix: 'site', context: 'Be brief.\r\nAlways.', target_folder: 'team', tools: 'chat' }
    const answer = await dash.admin.post(PAGE, { action: 'chat', form_key: 'k1', ...fields })
    const body = await answer.text()
    assert.equal(answer.status, 200, body)
    const [, url = '', token = ''] = /data-copy="(http:[^"]*\/chat\/([\w-]{43})\/)"/.exec(body) ?? []
    assert.ok(token, body)
    assert.match(body, /<svg[^>]*viewBox/)
    assert.ok(body.includes(`&lt;script src=&quot;${url}widget.js&quot; async&gt;&lt;/script&gt;`))
    assert.match(answer.headers.get('Cache-Control') ?? '', /no-store/)
    const page = await (await dash.admin.get(PAGE)).text()
    assert.ok(page.includes('web:team/site') && !page.includes(token))
    const { tokens } = await dash.cli.call(list_of, { folder: 'team' })
    assert.deepEqual([tokens[0]?.context, tokens[0]?.owner_folder], ['Be brief.\nAlways.', 'team'])
    const rows = await dash.host.engine.read((tx) => audit.list(tx))
    assert.ok(!JSON.stringify(rows).includes(token))
    const again = await dash.admin.post(PAGE, { action: 'chat', form_key: 'k1', ...fields })
    assert.ok(!(await again.text()).includes('data-copy="http'))
    assert.equal((await dash.cli.call(list_of, { folder: 'team' })).tokens.length, 1)
  })

  test('a chat link can keep its visitors apart', async (t) => {
    const dash = await serveDashboard(t)
    const fields = { action: 'chat', jid_suffix: 'site', target_folder: 'team', tools: 'chat' }
    const faulty = await dash.admin.post(PAGE, { ...fields, visitors: 'both', form_key: 'a' })
    assert.deepEqual([faulty.status, /must be together or apart/.test(await faulty.text())], [400, true])
    const minted = await dash.admin.post(PAGE, { ...fields, visitors: 'apart', form_key: 'b' })
    assert.match(await minted.text(), /data-copy="http/)
    const { tokens } = await dash.cli.call(list_of, { folder: 'team' })
    assert.deepEqual(
      tokens.map(({ jid, visitors }) => [jid, visitors]),
      [['web:team/site', 'apart']],
    )
    assert.match(await (await dash.admin.get(PAGE)).text(), />apart</)
  })

  test('a webhook can require signatures; the secret is in no page', async (t) => {
    const dash = await serveDashboard(t)
    const hook = { action: 'webhook', source_label: 'shop', target_folder: 'team', tools: 'work' }
    const open = await (await dash.operator.post(PAGE, { ...hook, form_key: 'a' })).text()
    assert.match(open, /data-copy="curl [^"]*\/hook\/[\w-]{43}"/)
    const secret = 'super-secret-value'
    const signed = { ...hook, verify: 'hmac', verify_header: 'X-Shop-Hmac', verify_secret: secret }
    const faulty = await dash.operator.post(PAGE, { ...signed, verify_header: '', form_key: 'b' })
    assert.equal(faulty.status, 400)
    const body = await faulty.text()
    assert.ok(!body.includes(secret) && body.includes('value="shop"'))
    const minted = await dash.operator.post(PAGE, { ...signed, jid_suffix: 'x', form_key: 'c' })
    assert.ok(!(await minted.text()).includes(secret))
    assert.ok((await (await dash.operator.get(PAGE)).text()).includes('hmac:X-Shop-Hmac'))
    const owned = (await dash.cli.call(list_of, { folder: 'team' })).tokens.map(({ owner_folder }) => owner_folder)
    assert.deepEqual(owned, ['main', 'main'])
  })

  test('a webhook can have its answers sent on; the secret is shown once', async (t) => {
    const dash = await serveDashboard(t)
    const hook = { action: 'webhook', source_label: 'ci', target_folder: 'team', tools: 'work' }
    const answer_to = 'https://ci.example.com/answers'
    assert.equal((await dash.admin.post(PAGE, { ...hook, answer_to, form_key: 'a' })).status, 403)
    const faulty = await dash.operator.post(PAGE, { ...hook, answer_to: 'web:team', form_key: 'b' })
    assert.equal(faulty.status, 400)
    assert.match(await faulty.text(), /links cannot answer to each other/)
    const minted = await (await dash.operator.post(PAGE, { ...hook, answer_to, form_key: 'c' })).text()
    const secret = /whsec_[A-Za-z0-9+/]{43}=/.exec(minted)?.[0] ?? assert.fail('no secret')
    const page = await (await dash.admin.get(PAGE)).text()
    assert.ok(page.includes(answer_to) && !page.includes(secret))
  })

  test('revoking asks first, and only those who administer the issuer can', async (t) => {
    const dash = await serveDashboard(t)
    const { jid } = await dash.cli.call(issue_hook, { target_folder: 'team', source_label: 'ci' })
    const asked = await dash.admin.post(PAGE, { action: 'revoke', jid, form_key: 'a' })
    assert.match(await asked.text(), /Revoke all links of hook:team\/ci\?/)
    assert.equal((await dash.cli.call(list_of, { folder: 'team' })).tokens.length, 1)
    const done = await dash.admin.post(PAGE, { action: 'revoke', jid, form_key: 'a', confirmed: 'yes' })
    assert.equal(done.status, 303)
    assert.equal((await dash.cli.call(list_of, { folder: 'team' })).tokens.length, 0)
    const minted = { target_folder: 'team', source_label: 'main', tools: 'work', action: 'webhook', form_key: 'b' }
    await dash.operator.post(PAGE, minted)
    const page = await (await dash.admin.get(PAGE)).text()
    assert.ok(page.includes('hook:team/main') && !page.includes('Revoke hook:team/main'))
    const refused = await dash.admin.post(PAGE, {
      action: 'revoke',
      jid: 'hook:team/main',
      form_key: 'c',
      confirmed: 'yes',
    })
    assert.equal(refused.status, 403)
  })

  test('a test is delivered and shown, and an earlier delivery is replayed', async (t) => {
    const dash = await serveDashboard(t)
    const { jid } = await dash.cli.call(issue_chat, { target_folder: 'team', context: HOSTILE })
    const sent = await dash.admin.post(PAGE, { action: 'test', jid, form_key: 'a' })
    const to = sent.headers.get('Location') ?? ''
    assert.match(to, /^\/dash\/folders\/team\?view=links&message=/)
    const shown = await (await dash.admin.get(to)).text()
    assert.ok(shown.includes('Sent message') && !shown.includes('<script>alert'))
    const listed = await (await dash.admin.get(`${PAGE}&jid=${encodeURIComponent(jid)}`)).text()
    const [, id = ''] = /name="id" value="([^"]+)"/.exec(listed) ?? []
    assert.ok(listed.includes('This is a test of this link'))
    assert.equal((await dash.admin.post(PAGE, { action: 'replay', id, form_key: 'b' })).status, 303)
    const all = await dash.host.engine.read((tx) => messages.list(tx))
    const received = all.filter(({ direction }) => direction === 'in')
    assert.deepEqual([received.length, received[1]?.link_context], [2, HOSTILE])
    const actors = (await dash.host.engine.read((tx) => audit.list(tx))).filter(({ action }) =>
      /replay|deliver_test/.test(action),
    )
    assert.equal(actors.length, 2)
  })

  test('the whole context of a link and the reasons of refusals are shown', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const context = `Orders of the shop. ${'Be brief. '.repeat(30)}The end of ${HOSTILE}`
    const { jid } = await dash.cli.call(issue_chat, { target_folder: 'team', context })
    await dash.host.engine.transaction(async (tx) => {
      const [{ token_hash } = assert.fail()] = await routeTokens.list(tx)
      const counted = { token_hash, last_used_at: '2026-01-01T00:00:00.000Z', accepted: 1, refused: { too_large: 3 } }
      await addLinkStats(tx, dash.host.engine.dialect, [counted])
    })
    const listed = await (await dash.admin.get(PAGE)).text()
    assert.ok(!listed.includes('The end of'))
    const shown = await (await dash.admin.get(`${PAGE}&jid=${encodeURIComponent(jid)}`)).text()
    assert.ok(shown.includes('The end of &quot;') && !shown.includes('<script>alert'))
    assert.match(shown, /<dt>Refused<\/dt><dd>too large: 3<\/dd>/)
  })

  test('strangers and administrators of other folders get 404, and the list is a CSV too', async (t) => {
    const dash = await serveDashboard(t)
    await dash.cli.call(issue_hook, { target_folder: 'other', source_label: 'hidden' })
    await dash.cli.call(issue_hook, { target_folder: 'team', source_label: 'ci' })
    for (const [browser, path] of [
      [dash.stranger, PAGE],
      [dash.admin, PAGE.replace('team', 'other')],
    ] as const) {
      const response = await browser.get(path)
      assert.equal(response.status, 404)
      assert.ok(!(await response.text()).includes('hook:'))
    }
    const csv = await (await dash.admin.get(`${PAGE}&format=csv`)).text()
    assert.match(csv, /^link,issued_by,delivers_to,.*\r\nhook:team\/ci,team,team,work,,not checked,/)
    assert.ok((await (await dash.operator.get(PAGE.replace('team', 'other'))).text()).includes('hook:other/hidden'))
  })
})
