// Requests of our own pages, of other sites and of programs.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maySessionAct, requestSource } from './request-source.ts'

const host = { webBase: 'https://chat.example' }
const source = (origin?: string, site?: string) =>
  requestSource(host, { origin, host: 'localhost:8080', 'sec-fetch-site': site })

test('the origin is that of WEB_HOST or of the request itself', () => {
  assert.equal(source('https://chat.example'), 'own')
  assert.equal(source('http://localhost:8080'), 'own')
  for (const origin of ['http://localhost:3000', 'https://chat.example.evil', 'https://evil.example', 'x', ''])
    for (const site of [undefined, 'same-origin', 'cross-site']) assert.equal(source(origin, site), 'foreign', origin)
})

test('the fetch metadata of the browser decide where the origin does not tell', () => {
  assert.equal(source(undefined, 'same-origin'), 'own')
  // Forms of pages with the referrer policy no-referrer.
  assert.equal(source('null', 'same-origin'), 'own')
  assert.equal(source('null'), 'foreign')
  for (const site of ['cross-site', 'same-site']) assert.equal(source(undefined, site), 'foreign')
  for (const site of ['none', undefined]) assert.equal(source(undefined, site), 'unknown')
})

test('a session may read by following a link, and change something only from our own pages', () => {
  const act = (method: string, headers: object) => maySessionAct(host, method, { host: 'chat.example', ...headers })
  assert.equal(act('GET', { 'sec-fetch-site': 'cross-site' }), true)
  assert.equal(act('GET', {}), true)
  assert.equal(act('GET', { origin: 'https://evil.example' }), false)
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    assert.equal(act(method, { origin: 'https://chat.example' }), true, method)
    assert.equal(act(method, {}), false, method)
    assert.equal(act(method, { origin: 'https://evil.example' }), false, method)
  }
})
