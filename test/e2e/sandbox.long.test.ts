// Sandbox rooms and channel adapters in a fresh instance with real processes.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { EVERY_CAPABILITY, fakeAdapter } from '../support/fake-adapter.ts'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

test('the agent of a routed sandbox room answers a question', async (t) => {
  const demo = await instance(t)
  await demo.serve()
  const svc = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await demo.run(...args)
    assert.equal(code, 0, `svc ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  await svc('group', 'demo', 'add', 'sandbox:lobby', 'team')
  const answered = JSON.parse(await svc('sandbox', 'demo', 'say', 'lobby', 'mia', 'What is new?', '--wait', '--json'))
  assert.deepEqual([answered.state, answered.id], ['answered', 's1'])
  assert.match(answered.answers[0].content, /What is new\?/)
  const [question, answer] = JSON.parse(await svc('sandbox', 'demo', 'show', 'lobby', '--json'))
  assert.deepEqual([question.author, question.is_from_me, answer.is_from_me], ['mia', false, true])
})

test('an adapter posts a message and delivers the answer', async (t) => {
  const demo = await instance(t)
  const { code, stderr } = await demo.run('group', 'demo', 'add', 'telegram:group/1', 'team')
  assert.equal(code, 0, stderr)
  const { urls } = await demo.serve()
  const adapter = await fakeAdapter(t, { isKeyed: true })
  const post = async (path: string, bearer: string, body: object): Promise<Record<string, unknown>> => {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${bearer}` }
    const answer = await fetch(`${urls.get('routd')}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.equal(answer.status, 200)
    return JSON.parse(await answer.text())
  }
  const { token } = await post('/v1/channels/register', secretOf(demo.root), {
    name: 'teled',
    url: adapter.url,
    jid_prefixes: ['telegram:'],
    capabilities: { ...EVERY_CAPABILITY, dedupe: true },
  })
  const question = { chat_jid: 'telegram:group/1', id: '900', sender: 'telegram:user/7', content: 'What is new?' }
  await post('/v1/messages', String(token), question)
  await until(() => adapter.delivered.length === 1)
  assert.match(adapter.delivered[0]?.content ?? '', /What is new\?/)
  const sent = adapter.requests.find(({ path }) => path === '/send')
  assert.equal(sent?.headers.authorization, `Bearer ${token}`)
  assert.equal(sent?.headers['idempotency-key'], sent?.body.key)
  assert.equal((await fetch(`${urls.get('proxyd')}/v1/channels`)).status, 404)
})

/** The secret that `create` generated. */
function secretOf(root: string): string {
  return /^CHANNEL_SECRET=(.+)$/m.exec(readFileSync(join(root, '.env'), 'utf8'))?.[1] ?? assert.fail('no secret')
}
