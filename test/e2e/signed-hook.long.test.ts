// Links that require signed requests: minting, verification and counters.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { instance } from '../support/svc.ts'

const SVC = join(import.meta.dirname, '../../bin/svc.js')

test('a signed link accepts valid signatures, refuses other requests with 401, and counts both', async (t) => {
  const demo = await instance(t)
  const served = await demo.serve()
  const door = served.urls.get('proxyd') ?? ''
  const mint = (source: string, scheme: string, secret: string): string => {
    const args = ['token', 'demo', 'issue', 'webhook', 'main', source, '--verify', scheme, '--verify-secret', '-']
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dirname(demo.root) }
    const { status, stdout, stderr } = spawnSync(process.execPath, [SVC, ...args], {
      env,
      input: `${secret}\n`,
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
    return `${door}/hook/${/^token: (.*)$/m.exec(stdout)?.[1]}`
  }
  const post = async (url: string, body: string, headers: Record<string, string>): Promise<number> =>
    (await fetch(url, { method: 'POST', body, headers })).status

  const github = mint('github', 'github', "It's a Secret to Everybody")
  const signature = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
  assert.equal(await post(github, 'Hello, World!', { 'X-Hub-Signature-256': signature }), 204)
  assert.equal(await post(github, 'Hello, World?', { 'X-Hub-Signature-256': signature }), 401)
  assert.equal(await post(github, 'Hello, World!', {}), 401)
  // The chat URL of the same token requires the signature too.
  assert.equal(await post(`${github.replace('/hook/', '/chat/')}/`, 'Hello, World!', {}), 401)

  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const standard = mint('shop', 'standard', secret)
  const now = new Date()
  const signatureHeaders = (at: Date) => ({
    'webhook-id': 'msg_1',
    'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
    'webhook-signature': new Webhook(secret).sign('msg_1', at, '{"paid":true}'),
  })
  assert.equal(await post(standard, '{"paid":true}', signatureHeaders(now)), 204)
  assert.equal(await post(standard, '{"paid":true}', signatureHeaders(new Date(now.getTime() - 600_000))), 401)

  const hmac = mint('other', 'hmac:X-Signature', 's3cret')
  const digest = createHmac('sha256', 's3cret').update('x').digest('base64')
  assert.equal(await post(hmac, 'x', { 'x-signature': digest }), 204)

  assert.equal((await served.stop()).code, 0)
  const { stdout } = await demo.run('token', 'demo', 'list', 'main', '--json')
  const links: { jid: string; verify: string; accepted: number; refused: object; last_used_at: string }[] =
    JSON.parse(stdout)
  const seen = links.map(({ jid, verify, accepted, refused }) => ({ jid, verify, accepted, refused }))
  assert.deepEqual(
    seen.sort((a, b) => (a.jid < b.jid ? -1 : 1)),
    [
      { jid: 'hook:main/github', verify: 'github', accepted: 1, refused: { signature: 3 } },
      { jid: 'hook:main/other', verify: 'hmac:X-Signature', accepted: 1, refused: {} },
      { jid: 'hook:main/shop', verify: 'standard', accepted: 1, refused: { signature: 1 } },
    ],
  )
  for (const { last_used_at } of links) assert.ok(Math.abs(Date.parse(last_used_at) - Date.now()) < 60_000)
  const table = (await demo.run('token', 'demo', 'list', 'main')).stdout
  assert.match(table, /^hook:main\/shop\tmain\tmain\t\S+Z\t\S+Z\twork\t-\tstandard\t-\t-$/m)
})
