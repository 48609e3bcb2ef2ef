import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { fakeAdapter } from '../../../test/support/fake-adapter.ts'
import type { HealthReport } from '../../core/delivery/channel-registrations.ts'
import { probeHealth, readHealth } from './health-check.ts'

const check = (status: number, body: unknown) => {
  const { isAlive, report } = readHealth({ status, text: typeof body === 'string' ? body : JSON.stringify(body) })
  return { isAlive, report: report && (JSON.parse(JSON.stringify(report)) as HealthReport) }
}

suite('the answer to a health check', () => {
  test('with another body counts by its status, as before', () => {
    const bodies = ['', 'fine', 'null', '[]', '{}', '{"status":"up"}', '{"status":1}', '{"status":"ok"', { ok: true }]
    const invalid = [
      { status: 'ok', detail: 7 },
      { status: 'refused', since: 'yesterday' },
      { status: 'refused', since: -1 },
      { status: 'refused', since: 253_402_300_800 },
      { status: 'refused', since: `2026-01-01T00:00:00.${'0'.repeat(40)}Z` },
      { status: 'login_needed', qr: '' },
      { status: 'login_needed', qr: 'a\u001bb' },
      { status: 'login_needed', qr: 'x'.repeat(2001) },
      { status: 'refused', more: Array(200).fill(0) },
    ]
    for (const body of [...bodies, ...invalid]) {
      assert.deepEqual(check(200, body), { isAlive: true, report: undefined }, JSON.stringify(body))
      assert.deepEqual(check(503, body), { isAlive: false, report: undefined }, JSON.stringify(body))
    }
  })

  test('with a state means that the process is alive, except ok with an error status', () => {
    for (const status of ['connecting', 'stale', 'login_needed', 'refused'])
      for (const code of [200, 404, 503])
        assert.deepEqual(check(code, { status }), { isAlive: true, report: { state: status } }, `${status} ${code}`)
    assert.deepEqual(check(204, { status: 'ok' }), { isAlive: true, report: { state: 'ok' } })
    for (const code of [199, 300, 500]) assert.equal(check(code, { status: 'ok' }).isAlive, false)
  })

  test('may be stale in a body of any shape', () => {
    assert.deepEqual(check(503, 'x "status" : "stale" y'), { isAlive: true, report: undefined })
    assert.equal(check(503, '"status": "staler"').isAlive, false)
  })

  test('has a detail, a time as text or in seconds, and a QR code', () => {
    const report = (body: object) => check(200, { status: 'login_needed', ...body }).report
    assert.deepEqual(report({ detail: 'scan', since: '2026-01-01T02:00:00+02:00', qr: '2@a,b', uptime: 5 }), {
      ...{ state: 'login_needed', detail: 'scan', since: '2026-01-01T00:00:00.000Z', qr: '2@a,b' },
    })
    assert.equal(report({ since: 1_767_225_600.5 })?.since, '2026-01-01T00:00:00.500Z')
    assert.equal(report({ since: 253_402_300_799 })?.since, '9999-12-31T23:59:59.000Z')
    assert.deepEqual(report({ detail: null, since: null, qr: null }), { state: 'login_needed' })
    assert.equal(report({ qr: 'x'.repeat(2000) })?.qr?.length, 2000)
  })

  test('has a detail of one line that hides nothing, cut to 300 characters', () => {
    const detail = (text: string) => check(200, { status: 'refused', detail: text }).report?.detail
    assert.equal(detail('a\nb\u001b[31m\u202ec\u0000'), 'a b [31m c')
    assert.equal(detail(' \u0007\n '), undefined)
    assert.equal(detail('😀'.repeat(301)), '😀'.repeat(300))
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
        assert.doesNotMatch(detail(text) ?? '', /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u)
      }),
    )
  })

  test('is read in linear time, and only its beginning', async (t) => {
    const adapter = await fakeAdapter(t)
    const probe = () =>
      probeHealth({ url: adapter.url, addresses: { isPublicAllowed: false }, stop: new AbortController().signal })
    const members = { status: 'refused', detail: 'x'.repeat(12_000) }
    adapter.behave({ status: 503, body: members })
    assert.deepEqual(await probe(), {
      isAlive: true,
      report: { state: 'refused', detail: 'x'.repeat(300), since: undefined, qr: undefined },
    })
    adapter.behave({ status: 503, body: { ...members, more: 'x'.repeat(4_000_000) } })
    assert.deepEqual(await probe(), { isAlive: false })
    adapter.behave({ status: 503, body: `"status"${' '.repeat(15_000)}` })
    assert.deepEqual(await probe(), { isAlive: false })
  })
})
