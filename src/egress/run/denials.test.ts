import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { formatAccessLine } from '../reporting/access-record.ts'
import { Denials } from './denials.ts'

function line(host: string, verdict: 'allow' | 'deny' = 'deny', sni?: string): string {
  const rest = { reason: 'blocked-by-allowlist', bytesUp: 0, bytesDown: 0, ms: 1 }
  return formatAccessLine(
    { mode: 'connect', source: '10.88.0.3', id: 'run', host, port: 443, sni, verdict, ...rest },
    'now',
  ).trim()
}

function sentence(...lines: string[]): string | undefined {
  const denials = new Denials()
  for (const each of lines) denials.read(each)
  return denials.sentence()
}

suite('the denials of a run', () => {
  test('lists each host once, the most frequent first', () => {
    assert.equal(sentence(line('a.test'), line('b.test'), line('b.test')), 'denied: b.test:443 (2 times), a.test:443')
  })
  test('lists the name refused inside a tunnel, not the host of the tunnel', () => {
    assert.equal(sentence(line('a.test', 'deny', 'b.test')), 'denied: b.test:443')
    assert.equal(sentence(line('a.test', 'deny', '\x1b')), undefined)
  })
  test('is empty if nothing was denied', () => {
    assert.equal(sentence(line('a.test', 'allow'), '{"level":"info","msg":"the proxy is ready"}', 'no JSON'), undefined)
  })
  test('contains no control characters', () => {
    assert.equal(sentence(line('\x1b]0;owned\x07.test'), line('a\nb.test'), '{"verdict":"deny"'), undefined)
  })
  test('is short, however many there are', () => {
    const many = Array.from({ length: 5000 }, (_, at) => line(`h${at}.test`))
    assert.match(sentence(...many) ?? '', /^denied: h0\.test:443, .*h9\.test:443, and 990 more$/)
  })
})
