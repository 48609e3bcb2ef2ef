import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import {
  ERROR_RESPONSES,
  formatErrorResponse,
  type ProxyErrorCode,
  TLS_ACCESS_DENIED_ALERT,
} from './error-responses.ts'

// The table has no other keys than the codes.
const CODES = Object.keys(ERROR_RESPONSES) as ProxyErrorCode[]

interface Read {
  readonly line: string
  readonly fields: ReadonlyMap<string, string>
  readonly body: string
}

function read(bytes: Buffer): Read {
  const text = bytes.toString()
  const end = text.indexOf('\r\n\r\n')
  const [line = '', ...rest] = text.slice(0, end).split('\r\n')
  const fields = rest.map((field): [string, string] => {
    const colon = field.indexOf(': ')
    return [field.slice(0, colon), field.slice(colon + 2)]
  })
  return { line, fields: new Map(fields), body: text.slice(end + 4) }
}

suite('an error response', () => {
  test('of a denied host has the reason in the status line, the body and two headers', () => {
    const { line, fields, body } = read(
      formatErrorResponse('blocked-by-allowlist', { host: 'a.example', port: 443, id: 'job-1' }),
    )
    assert.equal(line, 'HTTP/1.1 403 Forbidden by egress-proxy (host not in allowlist)')
    assert.equal(fields.get('X-Proxy-Error'), 'blocked-by-allowlist')
    assert.equal(fields.get('Proxy-Status'), 'egress-proxy; error=http_request_denied')
    assert.equal(fields.get('Connection'), 'close')
    assert.equal(
      body,
      'egress-proxy: host "a.example" port 443 is not allowed for "job-1". This is policy, not a network fault; do not retry another way.\n',
    )
  })

  test('of a denied IP address has the same public code as a denied host', () => {
    const { line, fields } = read(formatErrorResponse('ip-literal', { host: '10.0.0.1', port: 80 }))
    assert.match(line, /^HTTP\/1\.1 403 /)
    assert.equal(fields.get('X-Proxy-Error'), 'blocked-by-allowlist')
  })

  test('of a known source names the host and the id', () => {
    for (const code of ['blocked-by-allowlist', 'ip-literal', 'destination-ip-prohibited'] as const) {
      const about = { host: '10.0.0.1', port: 80, id: 'team/job', detail: 'private' }
      const { body } = read(formatErrorResponse(code, about, { denyMessage: 'Ask in #egress.' }))
      assert.match(body, /"10\.0\.0\.1" port 80 .* for "team\/job".* Ask in #egress\.\n$/)
    }
  })

  test('contains the operator’s message only if it is a denial', () => {
    const options = { denyMessage: 'Ask in #egress.' }
    assert.match(read(formatErrorResponse('unregistered-source', {}, options)).body, /Ask in #egress\.\n$/)
    assert.doesNotMatch(read(formatErrorResponse('dns-error', { host: 'a.example' }, options)).body, /Ask in/)
  })

  test('is JSON if the client accepts that', () => {
    const { fields, body } = read(
      formatErrorResponse('blocked-by-allowlist', { host: 'a.example', port: 80 }, { json: true }),
    )
    assert.equal(fields.get('Content-Type'), 'application/json')
    const { status, reason, host, port, message } = JSON.parse(body)
    assert.deepEqual([status, reason, host, port], [403, 'blocked-by-allowlist', 'a.example', 80])
    assert.match(message, /not allowed/)
  })

  test('to HEAD has Content-Length and no body', () => {
    const { fields, body } = read(formatErrorResponse('blocked-by-allowlist', {}, { bodiless: true }))
    assert.ok(Number(fields.get('Content-Length')) > 0)
    assert.equal(body, '')
  })

  test('with status 503 has Retry-After', () => {
    assert.equal(read(formatErrorResponse('limit-reached')).fields.get('Retry-After'), '1')
  })

  test('is one complete, short message whatever was requested', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...CODES),
        fc.record({ host: fc.string({ unit: 'binary', maxLength: 2000 }), id: fc.string(), detail: fc.string() }),
        fc.boolean(),
        (code, about, json) => {
          const bytes = formatErrorResponse(code, about, { json })
          const { line, fields, body } = read(bytes)
          assert.match(line, /^HTTP\/1\.1 [345]\d\d [\x20-\x7e]+$/)
          assert.equal(Number(fields.get('Content-Length')), Buffer.byteLength(body))
          assert.ok(bytes.length < 4096)
          if (!json) assert.match(body, /^[^\n]*\n$/)
        },
      ),
    )
  })

  test('to a TLS client is the fatal alert access_denied', () => {
    assert.deepEqual([...TLS_ACCESS_DENIED_ALERT], [21, 3, 3, 0, 2, 2, 49])
  })
})
