import assert from 'node:assert/strict'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { demoCliOn } from '../../../test/support/cli.ts'

suite('svc settings', () => {
  test('lists settings with their origin and without secrets', async (t) => {
    const cli = await demoCliOn(t, 'sqlite')
    const env = join(cli.root, '.env')
    appendFileSync(env, 'LOG_LEVEL=warn\nTTS_KEY=hidden-value\n')
    const lines = (await cli.ok('settings demo --set')).split('\n')
    assert.equal(lines[0], 'SETTING\tVALUE\tORIGIN\tABOUT')
    assert.ok(lines.includes(`LOG_LEVEL\twarn\t${env}\tlowest level that is logged`), lines.join('\n'))
    assert.ok(lines.some((line) => line.startsWith(`TTS_KEY\t(secret)\t${env}\t`)))
    const all = await cli.ok('settings demo --json')
    assert.ok(!all.includes('hidden-value'))
    const keys = JSON.parse(all).map(({ key }: { key: string }) => key)
    assert.ok(keys.includes('WEB_LISTEN') && keys.includes('MAX_CONCURRENT_TURNS'))
  })
})
