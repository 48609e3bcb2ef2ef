// Answers of webhooks, from the command line to a receiver, with the real program.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { openAnswerReceiver } from '../support/answer-receiver.ts'
import { needs } from '../support/needs.ts'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

test('the answer reaches the receiver after a crash, with the id of the first attempt', needs('openssl'), async (t) => {
  const receiver = await openAnswerReceiver(t)
  const demo = await instance(t)
  const env = { NODE_EXTRA_CA_CERTS: receiver.certificate, ANSWER_ALLOW_LOCAL: 'true' }
  const url = `https://localhost:${receiver.port}/answers`
  const minted = await demo.run('token', 'demo', 'issue', 'webhook', 'main', 'ci', '--answer-to', url)
  assert.equal(minted.code, 0, minted.stderr)
  const field = (name: string): string =>
    new RegExp(`^${name}: (.*)$`, 'm').exec(minted.stdout)?.[1] ?? assert.fail(minted.stdout)

  receiver.respond((response) => response.writeHead(503, { 'Retry-After': '10' }).end())
  const first = await demo.serve([], env)
  const hook = `${first.urls.get('proxyd')}/hook/${field('token')}`
  assert.equal((await fetch(hook, { method: 'POST', body: 'build 7 failed' })).status, 204)
  await until(() => receiver.posted.length === 1)
  const id = `${receiver.posted[0]?.headers['webhook-id']}`
  const show = async () => (await demo.run('messages', 'demo', 'show', id)).stdout
  // Otherwise the lease of the attempt must expire first.
  await until(async () => (await show()).includes('answers 503'))
  first.child.kill('SIGKILL')
  await once(first.child, 'exit')

  receiver.respond(200)
  const second = await demo.serve([], env)
  await until(() => receiver.posted.length === 2)
  const [one, two] = receiver.posted
  assert.ok(one && two)
  assert.deepEqual([two.headers['webhook-id'], two.body], [id, one.body])
  const event = new Webhook(field('answer_secret')).verify(two.body, two.headers as Record<string, string>)
  const { type, data } = event as { type: string; data: Record<string, unknown> }
  assert.deepEqual([type, data.link, data.folder], ['turn.answered', 'hook:main/ci', 'main'])
  assert.match(String(data.content), /build 7 failed/)

  await until(async () => /^state: sent$/m.test(await show()))
  assert.equal((await second.stop()).code, 0)
})

test(
  'a private address is refused by default, and the list of undelivered messages says so',
  needs('openssl'),
  async (t) => {
    const receiver = await openAnswerReceiver(t)
    const demo = await instance(t)
    const url = `https://localhost:${receiver.port}/answers`
    const { stdout } = await demo.run('token', 'demo', 'issue', 'webhook', 'main', 'ci', '--answer-to', url)
    const served = await demo.serve([], { NODE_EXTRA_CA_CERTS: receiver.certificate })
    const token = /^token: (.*)$/m.exec(stdout)?.[1]
    await fetch(`${served.urls.get('proxyd')}/hook/${token}`, { method: 'POST', body: 'x' })
    await until(async () => {
      const { stdout: shown } = await demo.run('channel', 'demo', 'undelivered', '--waiting')
      return shown.includes('its address is not public')
    })
    assert.equal(receiver.posted.length, 0)
    assert.equal((await served.stop()).code, 0)
  },
)
