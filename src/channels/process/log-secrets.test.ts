import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openLog } from '../../lib/log/log.ts'
import { hideSecrets } from './log-secrets.ts'

test('no line of the log contains a secret, also in errors and URLs', async () => {
  const secrets = ['123456:AA-token', 'pass"word\\', 'äöü secret', '']
  const lines: string[] = []
  const log = await openLog({ to: hideSecrets({ write: (line) => void lines.push(line) }, secrets) })
  for (const secret of secrets.slice(0, 3)) {
    const cause = new Error(`request to https://api.test/bot${secret}/getMe?x=${encodeURIComponent(secret)} failed`)
    log.error({ err: Object.assign(new Error(`at ${secret}`, { cause }), { error: cause }) }, `of ${secret}`)
  }
  assert.equal(lines.length, 3)
  for (const line of lines) JSON.parse(line)
  for (const secret of ['AA-token', 'pass', 'äöü', encodeURIComponent('äöü')])
    assert.ok(!lines.join('').includes(secret), lines.join(''))
})
