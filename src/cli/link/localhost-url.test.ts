import assert from 'node:assert/strict'
import { test } from 'node:test'
import { localhostUrl } from './localhost-url.ts'

test('only addresses of this machine become localhost', () => {
  const cases: Record<string, string> = {
    'http://127.0.0.1:8080': 'http://localhost:8080',
    'http://[::1]:8080/': 'http://localhost:8080',
    'http://0.0.0.0:8080': 'http://localhost:8080',
    'http://localhost:9000': 'http://localhost:9000',
    'https://svc.example.com': 'https://svc.example.com',
    'https://example.com/svc/': 'https://example.com/svc',
  }
  for (const [origin, expected] of Object.entries(cases)) assert.equal(localhostUrl(origin), expected)
})
