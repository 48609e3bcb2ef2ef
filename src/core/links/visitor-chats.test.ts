import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { folderFault, Jid, LabelSegment } from '../values.ts'
import { isOtherVisitorChat, isVisitorChat, linkJidOf, visitorPart } from './visitor-chats.ts'

const KEY = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('base64url'))
const SEGMENT = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,30}$/)
const LINK = fc.array(SEGMENT, { minLength: 1, maxLength: 7 }).map((parts) => `web:${parts.join('/')}`)

suite('the chats of visitors', () => {
  test('are told from all other chats, and lead to their link', () => {
    fc.assert(
      fc.property(LINK, KEY, (link, key) => {
        const jid = link + visitorPart(key)
        assert.deepEqual([isVisitorChat(link), linkJidOf(link)], [false, link])
        assert.deepEqual([isVisitorChat(jid), linkJidOf(jid)], [true, link])
        assert.ok(Jid.safeParse(jid).success)
        assert.ok(!jid.includes(key))
      }),
    )
  })

  test('have a mark that neither folders nor suffixes can contain', () => {
    assert.ok(folderFault('team~x'))
    assert.ok(!LabelSegment.safeParse('site~x').success)
    const longest = `web:${'x'.repeat(255)}/${'y'.repeat(64)}${visitorPart('key')}`
    assert.ok(Jid.safeParse(longest).success)
  })

  test('are none without a key, in webhooks, or with another length', () => {
    for (const jid of [
      'web:main~',
      `hook:main/ci${visitorPart('a')}`,
      `web:main${visitorPart('a')}x`,
      'web:main~short',
    ])
      assert.deepEqual([isVisitorChat(jid), linkJidOf(jid)], [false, jid], jid)
  })

  test('belong to one visitor each', () => {
    const [a, b] = [`web:main${visitorPart('a')}`, `web:main${visitorPart('b')}`]
    assert.ok(isOtherVisitorChat(a, b))
    for (const [own, jid] of [
      [a, a],
      ['web:main', b],
      [a, 'web:main'],
      [undefined, b],
    ] as const)
      assert.ok(!isOtherVisitorChat(own, jid))
  })
})
