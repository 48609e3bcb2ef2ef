import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { ANSWERS, type AnswerCode, answerBytes, TLS_DENIED } from './answers.ts'

// From a table of our own, so the keys are exactly the codes.
const CODES = Object.keys(ANSWERS) as AnswerCode[]

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

suite('what a client is told', () => {
  test('a denied host has its reason in the status line, the body and two headers', () => {
    const { line, fields, body } = read(
      answerBytes('blocked-by-allowlist', { host: 'a.example', port: 443, id: 'job-1' }),
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

  test('an address is denied under the name that clients know', () => {
    const { line, fields } = read(answerBytes('ip-literal', { host: '10.0.0.1', port: 80 }))
    assert.match(line, /^HTTP\/1\.1 403 /)
    assert.equal(fields.get('X-Proxy-Error'), 'blocked-by-allowlist')
  })

  test('every denial of a known source names its host and its id', () => {
    for (const code of ['blocked-by-allowlist', 'ip-literal', 'destination-ip-prohibited'] as const) {
      const about = { host: '10.0.0.1', port: 80, id: 'team/job', detail: 'private' }
      const { body } = read(answerBytes(code, about, { denyMessage: 'Ask in #egress.' }))
      assert.match(body, /"10\.0\.0\.1" port 80 .* for "team\/job".* Ask in #egress\.\n$/)
    }
  })

  test('what the operator adds stands in denials alone', () => {
    const manner = { denyMessage: 'Ask in #egress.' }
    assert.match(read(answerBytes('unregistered-source', {}, manner)).body, /Ask in #egress\.\n$/)
    assert.doesNotMatch(read(answerBytes('dns-error', { host: 'a.example' }, manner)).body, /Ask in/)
  })

  test('a program that asks for JSON gets the same in JSON', () => {
    const { fields, body } = read(answerBytes('blocked-by-allowlist', { host: 'a.example', port: 80 }, { json: true }))
    assert.equal(fields.get('Content-Type'), 'application/json')
    const { status, reason, host, port, message } = JSON.parse(body)
    assert.deepEqual([status, reason, host, port], [403, 'blocked-by-allowlist', 'a.example', 80])
    assert.match(message, /not allowed/)
  })

  test('an answer to HEAD has the length of its body and no body', () => {
    const { fields, body } = read(answerBytes('blocked-by-allowlist', {}, { bodiless: true }))
    assert.ok(Number(fields.get('Content-Length')) > 0)
    assert.equal(body, '')
  })

  test('503 says when to come again', () => {
    assert.equal(read(answerBytes('limit-reached')).fields.get('Retry-After'), '1')
  })

  test('R6: whatever is asked for, an answer is one whole, short message of its own', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...CODES),
        fc.record({ host: fc.string({ unit: 'binary', maxLength: 2000 }), id: fc.string(), detail: fc.string() }),
        fc.boolean(),
        (code, about, json) => {
          const bytes = answerBytes(code, about, { json })
          const { line, fields, body } = read(bytes)
          assert.match(line, /^HTTP\/1\.1 [345]\d\d [\x20-\x7e]+$/)
          assert.equal(Number(fields.get('Content-Length')), Buffer.byteLength(body))
          assert.ok(bytes.length < 4096)
          if (!json) assert.match(body, /^[^\n]*\n$/)
        },
      ),
    )
  })

  test('a TLS client gets a fatal alert: access denied', () => {
    assert.deepEqual([...TLS_DENIED], [21, 3, 3, 0, 2, 2, 49])
  })
})
