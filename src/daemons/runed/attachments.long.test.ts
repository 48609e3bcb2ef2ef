import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { exchangeEntries } from '../../../test/support/entry-swapper.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { chatDir, layout } from '../../core/layout.ts'
import { envelopes } from '../../core/messages/envelopes.ts'
import { saveAttachments } from './attachments.ts'

const base64 = (text: string): string => Buffer.from(text).toString('base64')

onEveryEngine('attachments of a message', (engine) => {
  async function open(t: TestContext, attachments: unknown, jid = 'sandbox:a') {
    const on = await openConversationHost(t, engine)
    const places = layout(tempDir(t))
    const home = join(places.groups, 'main')
    mkdirSync(home, { recursive: true })
    await on.ask('look', { jid, hasRound: false, envelope: { attachments: JSON.stringify(attachments) } })
    const claimed = await on.mustClaim()
    return { on, places, home, keep: () => saveAttachments(on.host, places, claimed) }
  }

  test('are in the workspace before the turn runs, and no longer in the store', async (t) => {
    const { on, home, keep } = await open(t, [
      { filename: 'a b.txt', mime: 'text/plain', data: base64('hello') },
      { filename: 'later.png', url: 'https://example.com/later.png' },
    ])
    const { messages } = await keep()
    const [kept, linked] = JSON.parse(messages[0]?.envelope?.attachments ?? '')
    assert.match(kept.path, /^\/home\/node\/media\/\d{8}\/\d+-0-a_b\.txt$/)
    assert.equal(readFileSync(join(home, kept.path.slice('/home/node/'.length)), 'utf8'), 'hello')
    assert.deepEqual(
      [kept.mime, kept.data, linked.url, linked.path],
      ['text/plain', undefined, 'https://example.com/later.png', undefined],
    )
    const [row] = await on.read((tx) => envelopes.list(tx))
    assert.equal(row?.attachments, messages[0]?.envelope?.attachments)
  })

  test('of visitors are in the directory of their chat, which no other chat sees', async (t) => {
    const { places, home, keep } = await open(t, [{ filename: 'a.txt', data: base64('hello') }], 'web:main')
    const { messages } = await keep()
    const [kept] = JSON.parse(messages[0]?.envelope?.attachments ?? '')
    assert.match(kept.path, /^\/home\/chat\/media\/\d{8}\/\d+-0-a\.txt$/)
    const inChat = join(
      chatDir(places, { folder: 'main', jid: 'web:main', reach: 'chat' }),
      kept.path.slice('/home/chat/'.length),
    )
    assert.equal(readFileSync(inChat, 'utf8'), 'hello')
    assert.deepEqual(readdirSync(home), [])
  })

  test('never leave the workspace, with any name and any existing file', async (t) => {
    const { home, keep } = await open(t, [{ filename: '../../../etc/x', data: base64('no') }])
    const outside = tempDir(t)
    symlinkSync(outside, join(home, 'media'))
    const { messages } = await keep()
    const [told] = JSON.parse(messages[0]?.envelope?.attachments ?? '')
    assert.deepEqual(told, { filename: '../../../etc/x' })
    assert.deepEqual(readdirSync(outside), [])
    assert.ok(!existsSync(join(home, '..', 'etc')))
  })

  if (engine === 'sqlite')
    test('are never written outside while their directory is replaced by a link', async (t) => {
      const { home, keep } = await open(
        t,
        Array.from({ length: 10_000 }, () => ({ filename: 'a', data: base64('x') })),
      )
      const outside = tempDir(t)
      mkdirSync(join(home, 'media'))
      symlinkSync(outside, join(home, 'trap'))
      await using exchanging = await exchangeEntries([join(home, 'media'), join(home, 'trap')])
      const { messages } = await keep()
      const told: { path?: string }[] = JSON.parse(messages[0]?.envelope?.attachments ?? '')
      const kept = told.filter(({ path }) => path !== undefined).length
      assert.ok(kept > 0 && kept < told.length, `${kept} of ${told.length} kept`)
      await exchanging[Symbol.asyncDispose]()
      assert.deepEqual(readdirSync(outside), [])
    })
})
