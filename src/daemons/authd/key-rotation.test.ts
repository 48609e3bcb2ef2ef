import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { ensureSigningKey } from '../../core/secrets/signing-key-rotation.ts'
import { audit } from '../../registry/audit.ts'
import { rotateDueKey } from './key-rotation.ts'

const DAY_MS = 24 * 3_600_000

test('replaces the signing key at its age, with an audit row, and never with age 0', async (t) => {
  const { host, clock } = await testHost(t)
  const logged: unknown[] = []
  const log = { info: (...line: unknown[]) => void logged.push(line), warn: () => assert.fail() }
  const first = await ensureSigningKey(host)
  const kidAfter = async (ageMs: number) => {
    await rotateDueKey({ host, log, ageMs })
    return (await ensureSigningKey(host)).kid
  }
  clock.advance(90 * DAY_MS - 1)
  assert.equal(await kidAfter(90 * DAY_MS), first.kid)
  clock.advance(1)
  assert.equal(await kidAfter(0), first.kid)
  const second = await kidAfter(90 * DAY_MS)
  assert.notEqual(second, first.kid)
  assert.equal(await kidAfter(90 * DAY_MS), second)
  const rows = await host.engine.read((tx) => audit.list(tx, { resource: 'signing_keys' }))
  assert.deepEqual(
    rows.map(({ action, actor }) => [action, actor]),
    [['signing_keys.rotate_by_age', 'authd']],
  )
  assert.equal(logged.length, 1)
})
