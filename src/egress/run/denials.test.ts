import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { lineOf } from '../exchange.ts'
import { Denials } from './denials.ts'

function line(host: string, verdict: 'allow' | 'deny' = 'deny', sni?: string): string {
  const rest = { reason: 'blocked-by-allowlist', bytesUp: 0, bytesDown: 0, ms: 1 }
  return lineOf(
    { mode: 'connect', source: '10.88.0.3', id: 'run', host, port: 443, sni, verdict, ...rest },
    'now',
  ).trim()
}

function sentence(...lines: string[]): string | undefined {
  const denials = new Denials()
  for (const each of lines) denials.read(each)
  return denials.sentence()
}

suite('what a run says of denials', () => {
  test('names each host once, the most wanted first', () => {
    assert.equal(sentence(line('a.test'), line('b.test'), line('b.test')), 'denied: b.test:443 (2 times), a.test:443')
  })
  test('names the server name that was refused inside a tunnel, and not the host of the tunnel', () => {
    assert.equal(sentence(line('a.test', 'deny', 'b.test')), 'denied: b.test:443')
    assert.equal(sentence(line('a.test', 'deny', '\x1b')), undefined)
  })
  test('is nothing where nothing was denied', () => {
    assert.equal(sentence(line('a.test', 'allow'), '{"level":"info","msg":"the proxy is ready"}', 'no JSON'), undefined)
  })
  test('has no character that a terminal obeys', () => {
    assert.equal(sentence(line('\x1b]0;owned\x07.test'), line('a\nb.test'), '{"verdict":"deny"'), undefined)
  })
  test('is short, however many there are', () => {
    const many = Array.from({ length: 5000 }, (_, at) => line(`h${at}.test`))
    assert.match(sentence(...many) ?? '', /^denied: h0\.test:443, .*h9\.test:443, and 990 more$/)
  })
})
