// How many tool calls come through one link or one account, however many requests they come in.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { type Links, links } from '../../../test/support/links.ts'
import { openHttpTools } from '../../../test/support/tools.ts'
import { AGENT_LIMITS } from '../../core/agent-limits.ts'

const OVER = 'too many tool calls\nhint: wait 1 s before the next call'

async function open(t: TestContext): Promise<Links> {
  const on = await testHost(t)
  await on.groups('main')
  Object.assign(on.host, { limits: { ...AGENT_LIMITS, toolCallsPerSecond: 1 } })
  return links(t, { on })
}

test('at a link, a call beyond the rate is an error, and other links have their own', async (t) => {
  const s = await open(t)
  const [one, two] = [await s.mintChat({ jid_suffix: 'a' }), await s.mintChat({ jid_suffix: 'b' })]
  const at = (chat: string) => openHttpTools(t, `${s.url('webd')}${chat}mcp`)
  const [first, again] = [await at(one.chat), await at(one.chat)]
  for (let count = 0; count < 5; count++) {
    await first.call('list_groups')
    await again.call('get_history')
  }
  assert.equal(await first.refusal('list_groups'), OVER)
  assert.equal(await again.refusal('send', { content: 'x' }), OVER)
  assert.deepEqual(await s.messages(), [])
  await (await at(two.chat)).call('list_groups')
  s.clock.advance(1000)
  await first.call('list_groups')
})

test('of a person, a call beyond the rate is an error, and other people have their own', async (t) => {
  const s = await open(t)
  const as = async (sub: string) => {
    await s.grant(sub, 'interact', 'main')
    const headers = { Authorization: `Bearer ${await s.bearer({ sub })}` }
    return openHttpTools(t, `${s.url('webd')}/mcp`, { headers })
  }
  const [one, two] = [await as('github:1'), await as('github:2')]
  for (let count = 0; count < 10; count++) await one.call('list_groups')
  assert.equal(await one.refusal('list_groups'), OVER)
  await two.call('list_groups')
  s.clock.advance(1000)
  await one.call('list_groups')
})
