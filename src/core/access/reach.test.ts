import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { defaultReach, hasReach, largerReach, Reach, smallestReach } from './reach.ts'

const reach = fc.constantFrom(...Reach.options)

suite('reach', () => {
  test('each reach includes itself and the smaller ones', () => {
    const included = Reach.options.map((one) => Reach.options.filter((other) => hasReach(one, other)))
    assert.deepEqual(included, [['chat'], ['chat', 'work'], ['chat', 'work', 'all']])
  })

  test('a turn has the smallest reach of its messages, in any order', () => {
    assert.equal(smallestReach(['all', 'work', 'all']), 'work')
    assert.equal(smallestReach(['work', 'chat']), 'chat')
    assert.equal(smallestReach(['all']), 'all')
    fc.assert(
      fc.property(fc.array(reach, { minLength: 1 }), (all) => {
        const least = smallestReach(all)
        assert.ok(all.includes(least))
        assert.ok(all.every((each) => hasReach(each, least)))
      }),
    )
  })

  test('the larger of two includes both', () => {
    fc.assert(
      fc.property(reach, reach, (one, other) => {
        const most = largerReach(one, other)
        assert.ok([one, other].includes(most) && hasReach(most, one) && hasReach(most, other))
      }),
    )
  })

  test('defaults to chat for chat links, work for webhooks and all for everything else', () => {
    const jids = ['web:main', 'web:main/site', 'hook:main/ci', 'sandbox:lobby', 'telegram:42', 'main', 'webhook:1']
    assert.deepEqual(jids.map(defaultReach), ['chat', 'chat', 'work', 'all', 'all', 'all', 'all'])
  })
})
