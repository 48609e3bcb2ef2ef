import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { isRefusal } from '../../../test/support/host.ts'
import {
  parseSignatureScheme,
  type SignatureScheme,
  signatureFault,
  signatureSchemeFault,
  signingSecretFault,
} from './webhook-signatures.ts'

const NOW_MS = Date.parse('2026-01-31T08:00:00Z')
const NOW = Math.floor(NOW_MS / 1000)
const bytes = (text: string): Uint8Array => Buffer.from(text)
const sign = (secret: Uint8Array | string, ...parts: (Uint8Array | string)[]): Buffer =>
  parts.reduce((mac, part) => mac.update(part), createHmac('sha256', secret)).digest()

interface SignedRequest {
  scheme: string
  secret: string
  headers: Record<string, string>
  body?: Uint8Array | string
  nowMs?: number
}

/** Header names in any case, as in a request. */
function fault({ scheme, secret, headers, body = '', nowMs = NOW_MS }: SignedRequest): string | undefined {
  const lower = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  const raw = typeof body === 'string' ? bytes(body) : body
  return signatureFault(parseSignatureScheme(scheme), bytes(secret), (name) => lower.get(name), raw, nowMs)
}

suite('github', () => {
  // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
  const documented = {
    scheme: 'github',
    secret: "It's a Secret to Everybody",
    body: 'Hello, World!',
    headers: { 'X-Hub-Signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17' },
  }

  test('accepts the documented example', () => assert.equal(fault(documented), undefined))

  test('rejects another body, another secret, a missing header and a bare digest', () => {
    assert.equal(fault({ ...documented, body: 'Hello, World' }), 'the signature does not match')
    assert.equal(fault({ ...documented, secret: 'another' }), 'the signature does not match')
    assert.match(fault({ ...documented, headers: {} }) ?? '', /X-Hub-Signature-256 is missing/)
    const bare = documented.headers['X-Hub-Signature-256'].slice(7)
    assert.equal(fault({ ...documented, headers: { 'X-Hub-Signature-256': bare } }), 'the signature does not match')
    assert.equal(
      fault({ ...documented, headers: { 'X-Hub-Signature-256': `sha256=${bare}, sha256=${bare}` } }),
      'the signature does not match',
    )
  })
})

suite('standard', () => {
  const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const ID = 'msg_p5jXN8AQM9LWM0D4loKWxJek'
  const request = (signature: string, at: string | number = NOW) => ({
    scheme: 'standard',
    secret: SECRET,
    body: '{"test": 2432232314}',
    headers: { 'webhook-id': ID, 'webhook-timestamp': `${at}`, 'webhook-signature': signature },
  })
  const signed = (at = NOW): string => new Webhook(SECRET).sign(ID, new Date(at * 1000), '{"test": 2432232314}')

  test('accepts the published example', () => {
    // The test vector of https://www.standardwebhooks.com and its libraries.
    const published = request('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=', 1614265330)
    assert.equal(fault({ ...published, nowMs: 1614265330_000 }), undefined)
    assert.match(fault(published) ?? '', /5 minutes off/)
  })

  test('accepts any text signed by the reference library', () => {
    fc.assert(
      fc.property(fc.base64String({ minLength: 4 }), fc.string({ unit: 'grapheme' }), (key, body) => {
        const secret = `whsec_${key}`
        const signature = new Webhook(secret).sign(ID, new Date(NOW_MS), body)
        assert.equal(fault({ ...request(signature), secret, body }), undefined)
      }),
    )
  })

  test('accepts nothing that the reference library rejects', () => {
    const now = Math.floor(Date.now() / 1000)
    const secret = 'not base64, used as it is'
    const body = '{"a":1}'
    const signature = `v1,${sign(secret, `${ID}.${now}.`, body).toString('base64')}`
    const headers = { 'webhook-id': ID, 'webhook-timestamp': `${now}`, 'webhook-signature': signature }
    assert.equal(fault({ scheme: 'standard', secret, headers, body, nowMs: Date.now() }), undefined)
    assert.deepEqual(new Webhook(secret, { format: 'raw' }).verify(body, headers), { a: 1 })
  })

  test('accepts one valid signature among several and ignores other versions', () => {
    const wrong = `v1,${Buffer.alloc(32).toString('base64')}`
    assert.equal(fault(request(`${wrong} v1a,abc ${signed()}`)), undefined)
    assert.equal(fault(request(`${wrong} ${wrong}`)), 'the signature does not match')
    assert.equal(fault(request(signed().replace('v1,', 'v2,'))), 'the signature does not match')
    assert.equal(fault(request(signed().replace('v1,', ''))), 'the signature does not match')
  })

  test('accepts timestamps up to five minutes early or late', () => {
    for (const off of [-300, 300]) assert.equal(fault(request(signed(NOW + off), NOW + off)), undefined)
    for (const off of [-301, 301]) assert.match(fault(request(signed(NOW + off), NOW + off)) ?? '', /5 minutes off/)
  })

  test('requires every header and verifies the signed time and id', () => {
    assert.equal(fault(request(signed(), NOW + 1)), 'the signature does not match')
    for (const at of ['', 'now', '-1', '1e9', ` ${NOW}`, '9'.repeat(13)])
      assert.match(fault(request(signed(), at)) ?? '', /seconds since 1970/)
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
      const { headers, ...rest } = request(signed())
      const others = Object.fromEntries(Object.entries(headers).filter(([header]) => header !== name))
      assert.match(fault({ ...rest, headers: others }) ?? '', new RegExp(`${name} is missing`))
    }
  })
})

suite('standard with the header names of Svix', () => {
  const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const body = '{"a":1}'
  const PARTS = ['id', 'timestamp', 'signature']
  /** A valid set of headers; its id is signed. */
  const set = (prefix: string, id: string): Record<string, string> => ({
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: `${NOW}`,
    [`${prefix}-signature`]: new Webhook(SECRET).sign(id, new Date(NOW_MS), body),
  })
  const check = (headers: Record<string, string>): string | undefined =>
    fault({ scheme: 'standard', secret: SECRET, headers, body })

  test('is accepted where webhook-id is missing or empty, with the same rules', () => {
    assert.equal(check(set('svix', 'm')), undefined)
    assert.equal(check({ ...set('svix', 'm'), 'webhook-id': '' }), undefined)
    assert.equal(check({ ...set('svix', 'm'), 'svix-id': 'n' }), 'the signature does not match')
    assert.match(check({ ...set('svix', 'm'), 'svix-timestamp': `${NOW - 301}` }) ?? '', /5 minutes off/)
    assert.match(check({ ...set('svix', 'm'), 'svix-id': '' }) ?? '', /webhook-id is missing/)
  })

  test('never combines headers of both sets', () => {
    const both = Object.entries({ ...set('svix', 'm'), ...set('webhook', 'm') })
    // All subsets of two valid sets with the same values.
    for (let subset = 0; subset < 2 ** both.length; subset++) {
      const headers = Object.fromEntries(both.filter((_, at) => ((subset >> at) & 1) === 1))
      const prefix = 'webhook-id' in headers ? 'webhook' : 'svix'
      const isComplete = PARTS.every((part) => `${prefix}-${part}` in headers)
      assert.equal(check(headers) === undefined, isComplete, Object.keys(headers).join())
    }
  })

  test('is not looked at beside webhook-id', () => {
    const forged = { ...set('webhook', 'm'), 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` }
    assert.equal(check({ ...set('svix', 'm'), ...forged }), 'the signature does not match')
    assert.equal(check({ ...set('webhook', 'm'), 'svix-id': 'other', 'svix-signature': 'v1,x' }), undefined)
  })
})

suite('stripe', () => {
  const SECRET = 'whsec_made_up_for_the_tests'
  const BODY = Buffer.from([0xff, 0xfe, 0, 10])
  const v1 = (at = NOW): string => sign(SECRET, `${at}.`, BODY).toString('hex')
  const request = (header: string) => ({
    scheme: 'stripe',
    secret: SECRET,
    body: BODY,
    headers: { 'Stripe-Signature': header },
  })

  test('uses the whole secret as key and signs the time before the body', () => {
    assert.equal(fault(request(`t=${NOW},v1=${v1()}`)), undefined)
    assert.equal(fault(request(`t=${NOW},v1=${'0'.repeat(64)},v1=${v1()},v0=${'1'.repeat(64)}`)), undefined)
  })

  test('ignores v0 and requires exactly one signed, recent timestamp', () => {
    assert.equal(fault(request(`t=${NOW},v0=${v1()}`)), 'the signature does not match')
    assert.equal(fault(request(`t=${NOW + 1},v1=${v1()}`)), 'the signature does not match')
    assert.match(fault(request(`t=${NOW - 301},v1=${v1(NOW - 301)}`)) ?? '', /5 minutes off/)
    assert.match(fault(request(`v1=${v1()}`)) ?? '', /exactly one t=/)
    assert.match(fault(request(`t=1,t=${NOW},v1=${v1()}`)) ?? '', /exactly one t=/)
    assert.match(fault({ ...request(''), headers: {} }) ?? '', /Stripe-Signature is missing/)
  })
})

suite('hmac', () => {
  const signedRequest = (value: string): SignedRequest => ({
    scheme: 'hmac:X-Signature',
    secret: 's3cret',
    headers: { 'x-signature': value },
    body: 'payload',
  })
  const digest = sign('s3cret', 'payload')

  test('accepts hex and base64, with and without the prefix', () => {
    for (const encoding of ['hex', 'base64', 'base64url'] as const) {
      assert.equal(fault(signedRequest(digest.toString(encoding))), undefined)
      assert.equal(fault(signedRequest(`sha256=${digest.toString(encoding)}`)), undefined)
    }
    assert.equal(fault(signedRequest(digest.toString('hex').toUpperCase())), undefined)
  })

  test('rejects truncated and malformed signatures', () => {
    const hex = digest.toString('hex')
    for (const value of ['', 'sha256=', hex.slice(2), `${hex}00`, `sha1=${hex}`, `${hex} `, 'f'.repeat(64)])
      assert.equal(fault(signedRequest(value)), 'the signature does not match', value)
    assert.match(fault({ ...signedRequest(''), headers: {} }) ?? '', /x-signature is missing/)
  })
})

test('rejects random signatures under every scheme', () => {
  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 64, maxLength: 64 }),
    fc.uint8Array({ minLength: 32, maxLength: 32 }).map((raw) => Buffer.from(raw).toString('base64')),
  )
  const given = fc.oneof(
    value,
    value.map((text) => `sha256=${text}`),
    value.map((text) => `v1,${text}`),
    value.map((text) => `t=${NOW},v1=${text}`),
  )
  const names = ['x-hub-signature-256', 'webhook-signature', 'stripe-signature', 'x-signature']
  const schemes = ['github', 'standard', 'stripe', 'hmac:X-Signature']
  fc.assert(
    fc.property(fc.constantFrom(...schemes), given, fc.uint8Array(), fc.boolean(), (scheme, text, body, isTimed) => {
      const headers = {
        ...Object.fromEntries(names.map((name) => [name, text])),
        ...(isTimed ? { 'webhook-id': 'a', 'webhook-timestamp': `${NOW}` } : {}),
      }
      assert.ok(fault({ scheme, secret: 'the secret', headers, body }))
    }),
    { numRuns: 1000 },
  )
})

test('parses schemes, with header names in any case', () => {
  const read = (text: string): SignatureScheme => parseSignatureScheme(text)
  for (const kind of ['github', 'standard', 'stripe'] as const) assert.deepEqual(read(kind), { kind })
  assert.deepEqual(read('hmac:X-Shop-Hmac'), { kind: 'hmac', header: 'x-shop-hmac' })
})

test('rejects other schemes and lists the valid ones', () => {
  const known = /^(github|standard|stripe|hmac:[!#$%&'*+.^_`|~\w-]{1,64})$/
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string().map((text) => `hmac:${text}`),
      ),
      (text) => {
        assert.equal(signatureSchemeFault(text) === undefined, known.test(text))
      },
    ),
  )
  assert.throws(
    () => parseSignatureScheme('GitHub'),
    isRefusal('invalid', 'must be github, standard, stripe or hmac:<header>'),
  )
  for (const text of ['hmac:', 'hmac:a b', 'hmac:a:b', 'hmac:é', 'hmac:a\n', `hmac:${'x'.repeat(65)}`])
    assert.throws(() => parseSignatureScheme(text), isRefusal('invalid', 'such as hmac:X-Signature'))
})

test('rejects secrets that no sender can sign with', () => {
  assert.equal(signingSecretFault({ kind: 'github' }, ''), 'must not be empty')
  assert.equal(signingSecretFault({ kind: 'standard' }, 'whsec_not-base64!'), 'must be base64 after whsec_')
  assert.equal(signingSecretFault({ kind: 'standard' }, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'), undefined)
  assert.equal(signingSecretFault({ kind: 'stripe' }, 'whsec_not-base64!'), undefined)
})
