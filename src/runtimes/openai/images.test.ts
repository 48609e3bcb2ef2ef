import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { TurnFile } from '../runtime.ts'
import { BlindModels, chooseImages } from './images.ts'
import { CostMeter } from './turn.ts'

const MEGABYTE = 1024 * 1024

function chosen(...given: readonly Partial<TurnFile>[]): string[] {
  const files = given.map((file, at) => ({ name: 'a', type: 'image/png', size: 1, path: `/home/files/${at}`, ...file }))
  const message = { id: 'm1', sender: 'anon:1', text: '', jid: 'web:team' }
  return chooseImages([{ ...message, files: files.slice(0, 1) }, { ...message, files: files.slice(1) }, message]).map(
    ({ path }) => path.slice('/home/files/'.length),
  )
}

suite('the images of a turn', () => {
  test('are those of four types that the run can read', () => {
    const types = ['image/png', 'image/svg+xml', 'image/jpeg', 'image/gif', 'text/plain', 'image/webp', 'image/avif']
    assert.deepEqual(chosen(...types.map((type) => ({ type })), { path: undefined }), ['0', '2', '3', '5'])
  })

  test('are the newest within the limits of size and number, oldest first', () => {
    assert.deepEqual(chosen({ size: 5 * MEGABYTE }, { size: 5 * MEGABYTE + 1 }), ['0'])
    assert.deepEqual(chosen(...Array.from({ length: 11 }, () => ({}))), '12345678910'.match(/10|\d/g))
    const five = { size: 5 * MEGABYTE }
    assert.deepEqual(chosen({}, five, five, five, five), ['1', '2', '3', '4'])
    assert.deepEqual(chosen({}, { size: 5 * MEGABYTE - 1 }, five, five, five), ['0', '1', '2', '3', '4'])
  })

  test('count for their tokens, not their bytes, while a request is under way', () => {
    const lines: string[] = []
    const endpoint = { baseUrl: 'http://127.0.0.1', model: 'small', reportsCost: false }
    const meter = new CostMeter({ endpoint }, (line) => lines.push(line))
    const url = `data:image/png;base64,${'A'.repeat(MEGABYTE)}`
    meter.start({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }], tools: [] })
    const { input } = JSON.parse(lines.at(-1) ?? '').usage[0]
    assert.ok(input >= 1500 && input < 1600, String(input))
  })
})

test('models that cannot see are remembered for each folder, up to a number', () => {
  const blind = new BlindModels()
  blind.add('team', 'http://a', 'small')
  assert.ok(blind.has('team', 'http://a', 'small'))
  assert.ok(!blind.has('other', 'http://a', 'small') && !blind.has('team', 'http://a', 'large'))
  for (let at = 0; at < 1000; at++) blind.add('team', 'http://a', String(at))
  assert.ok(!blind.has('team', 'http://a', 'small') && blind.has('team', 'http://a', '999'))
})
