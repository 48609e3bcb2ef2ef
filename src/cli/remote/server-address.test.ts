import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { parseBaseUrl } from './server-address.ts'

test('takes https anywhere and http on this machine, without a trailing slash', () => {
  const cases: Record<string, string> = {
    'https://svc.example.com/': 'https://svc.example.com',
    'https://example.com/svc//': 'https://example.com/svc',
    'http://localhost:8080': 'http://localhost:8080',
    'http://127.0.0.1:8080/': 'http://127.0.0.1:8080',
    'http://[::1]:8080': 'http://[::1]:8080',
  }
  for (const [text, expected] of Object.entries(cases)) assert.equal(parseBaseUrl(text), expected)
})

test('refuses addresses that would send tokens in the clear or elsewhere', () => {
  const wrong = [
    'http://svc.example.com',
    'http://localhost.example.com',
    'http://127.0.0.1.example.com',
    'ftp://localhost',
  ]
  wrong.push(
    'svc.example.com',
    '',
    'https://ada:pw@svc.example.com',
    'https://svc.example.com/?a',
    'https://svc.example.com/#a',
  )
  for (const text of wrong) assert.throws(() => parseBaseUrl(text), isRefusal('invalid'), text)
})
