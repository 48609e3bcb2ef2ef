// The rate limit of tool calls per link or account.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { testHost } from '../../../../test/support/host.ts'
import { type LinkHost, openLinkHost } from '../../../../test/support/link-host.ts'
import { openHttpTools } from '../../../../test/support/tools.ts'
import { AGENT_LIMITS } from '../../../core/access/agent-limits.ts'

const OVER = 'too many tool calls\nhint: wait 1 s before the next call'

async function open(t: TestContext): Promise<LinkHost> {
  const on = await testHost(t)
  await on.groups('main')
  Object.assign(on.host, { limits: { ...AGENT_LIMITS, toolCallsPerSecond: 1 } })
  return openLinkHost(t, { on })
}

test('at a link, a call over the rate is an error; other links have their own rate', async (t) => {
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

test('for a person, a call over the rate is an error; other people have their own rate', async (t) => {
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
