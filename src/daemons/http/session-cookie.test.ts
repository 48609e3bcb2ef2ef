import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { openKeyring } from '../../core/secrets/keyring.ts'
import {
  clearedSessionCookie,
  formatSessionCookie,
  formToken,
  isFormToken,
  readSessionCookie,
  sessionCookieName,
  withoutSessionCookie,
} from './session-cookie.ts'

const plain = { instance: 'demo', webBase: 'http://localhost:8080' }
const secure = { instance: 'demo', webBase: 'https://chat.example' }
const TOKEN = 'a'.repeat(43)

test('the cookie has the __Host- prefix and Secure under HTTPS, and the name of the instance elsewhere', () => {
  assert.equal(
    formatSessionCookie(secure, TOKEN),
    `__Host-svc_session=${TOKEN}; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax; Secure`,
  )
  assert.equal(
    formatSessionCookie(plain, TOKEN),
    `svc_session_demo=${TOKEN}; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax`,
  )
  assert.match(clearedSessionCookie(secure), /^__Host-svc_session=; Path=\/; Max-Age=0; /)
})

test('two cookies of the name give no session, whichever comes first', () => {
  const name = sessionCookieName(secure)
  assert.equal(readSessionCookie(secure, `a=b; ${name}=${TOKEN}; c=d`), TOKEN)
  for (const header of [
    `${name}=${TOKEN}; ${name}=planted`,
    `${name}=planted; ${name}=${TOKEN}`,
    `${name}=${TOKEN}; ${name}=${TOKEN}`,
    `${name}=${TOKEN};${name}=`,
  ])
    assert.equal(readSessionCookie(secure, header), undefined, header)
})

test('other cookies are not the session: prefixes, another case, the name of another instance or scheme', () => {
  for (const header of [
    undefined,
    '',
    `x__Host-svc_session=${TOKEN}`,
    `__Host-svc_session2=${TOKEN}`,
    `__host-svc_session=${TOKEN}`,
    `svc_session_demo=${TOKEN}`,
    `a="__Host-svc_session=${TOKEN}"`,
    '__Host-svc_session',
  ])
    assert.equal(readSessionCookie(secure, header), undefined)
  assert.equal(readSessionCookie(plain, `svc_session_other=${TOKEN}`), undefined)
})

test('backends get every cookie but the session', () => {
  const header = fc.array(fc.tuple(fc.stringMatching(/^[a-z_]{1,8}$/), fc.stringMatching(/^[a-z0-9]{0,8}$/)), {
    maxLength: 5,
  })
  fc.assert(
    fc.property(header, fc.nat(5), (pairs, at) => {
      const others = pairs.map(([name, value]) => `${name}=${value}`)
      const given = others.toSpliced(at, 0, `${sessionCookieName(plain)}=${TOKEN}`)
      assert.equal(withoutSessionCookie(plain, given.join('; ')), others.length === 0 ? undefined : others.join('; '))
    }),
  )
  const name = sessionCookieName(plain)
  assert.equal(withoutSessionCookie(plain, `${name}=a; ${name} = b;${name}=c`), undefined)
})

test('a form token belongs to one session and one key', () => {
  const [host, other] = [{ keyring: openKeyring('a') }, { keyring: openKeyring('b') }]
  const token = formToken(host, 'session 1')
  assert.equal(isFormToken(host, 'session 1', token), true)
  for (const [at, binding, given] of [
    [host, 'session 2', token],
    [other, 'session 1', token],
    [host, 'session 1', undefined],
    [host, 'session 1', ''],
    [host, 'session 1', token.slice(1)],
    [host, 'session 1', `${token}a`],
  ] as const)
    assert.equal(isFormToken(at, binding, given), false)
})
