// A name may resolve to one address when an adapter registers and to another at a later request.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { LookupFunction } from 'node:net'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { EVERY_CAPABILITY, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { createRestrictedLookup, forbiddenAddressFault, isPrivateAddress } from '../address-policy.ts'
import { isChannelError } from '../channel.contract.ts'
import { openHttpChannel, probeHealth } from './adapter.ts'

/** A resolver whose result the test can change. */
function resolver(...first: string[]): {
  lookup: LookupFunction
  asked: string[]
  answer(...addresses: string[]): void
} {
  const asked: string[] = []
  let addresses = first
  return {
    asked,
    answer: (...next) => {
      addresses = next
    },
    lookup: (hostname, options, callback) => {
      asked.push(hostname)
      const all = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
      if (options.all) callback(null, all)
      else callback(null, all[0]?.address ?? '', all[0]?.family)
    },
  }
}

async function openAdapter(t: TestContext, isPublicAllowed = false) {
  const adapter = await fakeAdapter(t)
  const names = resolver('127.0.0.1')
  const addresses = { isPublicAllowed, lookup: names.lookup }
  const url = adapter.url.replace('127.0.0.1', 'adapter.test')
  const channel = openHttpChannel({
    name: 'teled',
    platform: 'telegram',
    url,
    addresses,
    capabilities: EVERY_CAPABILITY,
  })
  const send = async () => channel.actions.send?.({ jid: 'telegram:1', key: 'k', content: 'hello' })
  return {
    adapter,
    names,
    url,
    send,
    isHealthy: async () => (await probeHealth({ url, addresses, stop: new AbortController().signal })).isAlive,
  }
}

const REFUSED = isChannelError('transient', 'cannot be reached \\(its address is neither loopback nor private\\)')

test('sends nothing to an adapter whose name now resolves to a forbidden address', async (t) => {
  const { adapter, names, send, isHealthy } = await openAdapter(t)
  assert.deepEqual(await send(), { id: 'p1' })
  assert.equal(await isHealthy(), true)
  // A list with an allowed address that listens must not hide the forbidden one.
  for (const addresses of [['169.254.169.254'], ['203.0.113.7'], ['127.0.0.1', '203.0.113.7'], ['2001:db8::1'], []]) {
    names.answer(...addresses)
    await assert.rejects(send, REFUSED, addresses.join())
    assert.equal(await isHealthy(), false)
  }
  names.answer('127.0.0.1')
  assert.equal((await send())?.id, 'p2')
  assert.equal(adapter.requests.length, 3)
  assert.ok(names.asked.every((name) => name === 'adapter.test'))
})

test('resolves the name for each connection', async (t) => {
  const { names, send } = await openAdapter(t)
  await send()
  await send()
  assert.equal(names.asked.length, 2)
})

test('checks an IP address in the URL', async () => {
  for (const url of [
    'http://203.0.113.7:9/',
    'http://169.254.169.254/',
    'http://[2001:db8::1]:9/',
    'http://3405803783/',
  ]) {
    const addresses = { isPublicAllowed: false }
    const channel = openHttpChannel({ name: 'a', platform: 'x', url, addresses, capabilities: EVERY_CAPABILITY })
    await assert.rejects(async () => channel.actions.send?.({ jid: 'x:1', key: 'k', content: 'c' }), REFUSED, url)
  }
})

test('refuses no address if public ones are allowed', async (t) => {
  const { names, send } = await openAdapter(t, true)
  assert.deepEqual(await send(), { id: 'p1' })
  // Not a private address, but it reaches this machine.
  names.answer('0.0.0.0')
  assert.equal((await send())?.id, 'p2')
  assert.equal(forbiddenAddressFault(new URL('http://203.0.113.7'), { isPublicAllowed: true }), undefined)
})

test('does not follow redirects', async (t) => {
  const other = createServer((_, response) => response.end('{}')).listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.after(() => other.close())
  let requests = 0
  other.on('request', () => requests++)
  const address = other.address()
  const { adapter, send, isHealthy } = await openAdapter(t)
  const port = typeof address === 'object' ? address?.port : undefined
  adapter.behave({ status: 302, headers: { Location: `http://127.0.0.1:${port}/` } })
  await assert.rejects(send, isChannelError('permanent', 'answers 302'))
  assert.equal(await isHealthy(), false)
  assert.equal(requests, 0)
})

test('the lookup succeeds only if all addresses are private', () => {
  const one = fc.oneof(fc.ipV4(), fc.ipV6(), fc.constantFrom('127.0.0.1', '10.1.2.3', '::1', '::ffff:127.0.0.1'))
  fc.assert(
    fc.property(fc.array(one, { maxLength: 4 }), fc.boolean(), (addresses, all) => {
      let given: readonly string[] | undefined
      const lookup = createRestrictedLookup({ isPublicAllowed: false, lookup: resolver(...addresses).lookup })
      lookup('adapter.test', { all }, (error, found) => {
        if (!error) given = typeof found === 'string' ? [found] : found.map(({ address }) => address)
      })
      const areFine = addresses.length > 0 && addresses.every(isPrivateAddress)
      assert.deepEqual(given, areFine ? (all ? addresses : addresses.slice(0, 1)) : undefined)
    }),
  )
})
