import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { suite, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { type FakeDns, openFakeDns } from '../../../test/support/fake-dns.ts'
import { needs } from '../../../test/support/needs.ts'
import { leaveOpenFiles } from '../../../test/support/open-files.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { type DnsResult, openResolver, type Resolver, type ResolverOptions } from './resolver.ts'

const RESOLVER = JSON.stringify(new URL('./resolver.ts', import.meta.url).href)

/** As many queries at once as the server's socket buffer certainly holds. */
const FEW = 50

interface Stage {
  readonly dns: FakeDns
  readonly resolver: Resolver
  readonly hostsPath: string
}

async function stage(t: TestContext, options: ResolverOptions & { hosts?: string } = {}): Promise<Stage> {
  const { hosts = '', ...others } = options
  const dns = await openFakeDns(t)
  const hostsPath = join(tempDir(t), 'hosts')
  writeFileSync(hostsPath, hosts)
  const resolver = openResolver({ servers: [dns.server], hostsPath, ...others })
  t.after(() => resolver.close())
  return { dns, resolver, hostsPath }
}

const addressesOf = (resolved: DnsResult): readonly string[] =>
  resolved.kind === 'addresses' ? resolved.addresses : assert.fail(`it failed: ${JSON.stringify(resolved)}`)
const ttlOf = (resolved: DnsResult): number =>
  resolved.kind === 'addresses' ? resolved.ttlMs : assert.fail(`it failed: ${JSON.stringify(resolved)}`)
const failed = (code: string, rcode?: string) => ({ kind: 'failed', code, ...(rcode !== undefined && { rcode }) })

suite('the DNS', () => {
  test('resolves a name to its addresses of both families', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1', '2001:db8::1'] })
    const addresses = addressesOf(await resolver.resolve('a.test'))
    assert.deepEqual([...addresses].sort(), ['192.0.2.1', '2001:db8::1'])
  })

  test('keeps the order of the response and alternates families', async (t) => {
    const { dns, resolver } = await stage(t)
    const four = ['192.0.2.3', '192.0.2.1', '192.0.2.2']
    const six = ['2001:db8::3', '2001:db8::1', '2001:db8::2']
    dns.tell('a.test', { addresses: [...four, ...six] })
    const addresses = addressesOf(await resolver.resolve('a.test'))
    assert.deepEqual(
      addresses.filter((address) => address.includes('.')),
      four,
    )
    assert.deepEqual(
      addresses.filter((address) => address.includes(':')),
      six,
    )
    const families = addresses.map((address) => address.includes(':'))
    assert.ok(families.every((family, index) => index === 0 || family !== families[index - 1]))
  })

  test('returns IPv4-mapped addresses as IPv4', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:192.0.2.2'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1', '192.0.2.2'])
  })

  test('asks once per family and lookup, and caches nothing', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    await resolver.resolve('a.test')
    assert.deepEqual([dns.count('a.test', 'A'), dns.count('a.test', 'AAAA'), dns.asked.length], [1, 1, 2])
    await resolver.resolve('a.test')
    assert.deepEqual([dns.count('a.test', 'A'), dns.count('a.test', 'AAAA')], [2, 2])
  })

  test('returns the response of one query for a name that changes with each', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('flips.test', (type, nth) => ({ addresses: type === 'A' ? [nth === 0 ? '192.0.2.1' : '127.0.0.1'] : [] }))
    assert.deepEqual(addressesOf(await resolver.resolve('flips.test')), ['192.0.2.1'])
    assert.equal(dns.count('flips.test', 'A'), 1)
    assert.deepEqual(addressesOf(await resolver.resolve('flips.test')), ['127.0.0.1'])
  })

  test('shares a lookup in progress for the same name', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    const all = await Promise.all(Array.from({ length: 50 }, () => resolver.resolve('a.test')))
    for (const one of all) assert.deepEqual(addressesOf(one), ['192.0.2.1'])
    assert.equal(dns.count('a.test', 'A'), 1)
  })
})

suite('the lifetime of a result', () => {
  test('is the TTL between a second and a minute', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'], ttl: 30 })
    assert.equal(ttlOf(await resolver.resolve('a.test')), 30_000)
  })

  test('is a second for a TTL of 0', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'], ttl: 0 })
    assert.equal(ttlOf(await resolver.resolve('a.test')), 1_000)
  })

  test('is a minute for a huge TTL', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const ttl of [86_400, 0x7fff_ffff, 0xffff_ffff]) {
      dns.tell('a.test', { addresses: ['192.0.2.1'], ttl })
      assert.equal(ttlOf(await resolver.resolve('a.test')), 60_000)
    }
  })

  test('is the shortest of both families and their aliases', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', (type) => ({ addresses: ['192.0.2.1', '2001:db8::1'], ttl: type === 'A' ? 40 : 20 }))
    dns.tell('alias.test', { cname: 'a.test', ttl: 5 })
    assert.equal(ttlOf(await resolver.resolve('a.test')), 20_000)
    assert.equal(ttlOf(await resolver.resolve('alias.test')), 5_000)
  })
})

suite('unusual responses', () => {
  test('uses 16 of 100 addresses, from both families', async (t) => {
    const { dns, resolver } = await stage(t)
    const four = Array.from({ length: 100 }, (_, index) => `192.0.2.${index}`)
    const six = Array.from({ length: 100 }, (_, index) => `2001:db8::${(index + 1).toString(16)}`)
    dns.tell('many.test', { addresses: [...four, ...six] })
    const addresses = addressesOf(await resolver.resolve('many.test'))
    assert.deepEqual([...addresses].sort(), [...four.slice(0, 8), ...six.slice(0, 8)].sort())
    assert.ok(dns.asked.some(({ over }) => over === 'tcp'))
  })

  test('follows aliases without querying their names', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { cname: 'b.denied.test' })
    dns.tell('b.denied.test', { cname: 'c.denied.test' })
    dns.tell('c.denied.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
    assert.ok(dns.asked.every(({ name }) => name === 'a.test'))
  })

  test('fails at once for an alias loop', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { cname: 'b.test' })
    dns.tell('b.test', { cname: 'a.test' })
    assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'NODATA'))
  })

  test('reports a name that does not exist', async (t) => {
    const { resolver } = await stage(t)
    assert.deepEqual(await resolver.resolve('none.test'), failed('dns-error', 'NXDOMAIN'))
  })

  test('reports a name without addresses', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', {})
    assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'NODATA'))
  })

  test('reports the code of a refusal', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const rcode of ['SERVFAIL', 'REFUSED', 'NOTIMP', 'FORMERR'] as const) {
      dns.tell('a.test', { rcode })
      assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', rcode))
    }
  })

  test('reports the failure if one family fails and the other is empty', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const broken of ['A', 'AAAA']) {
      dns.tell('a.test', (type) => (type === broken ? { rcode: 'SERVFAIL' } : {}))
      assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'SERVFAIL'))
    }
  })

  test('uses one family if the other fails', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const rcode of ['SERVFAIL', 'NXDOMAIN', 'NOTIMP'] as const) {
      dns.tell('a.test', (type) => (type === 'A' ? { addresses: ['192.0.2.1'] } : { rcode }))
      assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
      dns.tell('a.test', (type) => (type === 'AAAA' ? { addresses: ['2001:db8::1'] } : { rcode }))
      assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['2001:db8::1'])
    }
  })

  test('does not wait for a family that never answers, and keeps the other for a second', async (t) => {
    const { dns, resolver } = await stage(t, { timeoutMs: 600_000 })
    for (const [answering, address] of [
      ['A', '192.0.2.1'],
      ['AAAA', '2001:db8::1'],
    ] as const) {
      dns.tell('a.test', (type) => (type === answering ? { addresses: [address], ttl: 50 } : { silent: true }))
      const resolved = await resolver.resolve('a.test')
      assert.deepEqual(resolved, { kind: 'addresses', addresses: [address], ttlMs: 1_000 })
    }
  })

  test('fails without a server', async (t) => {
    const { resolver } = await stage(t, { servers: ['127.0.0.1:9'] })
    assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'CONNREFUSED'))
  })

  test('skips a server that does not answer', async (t) => {
    const { dns, hostsPath } = await stage(t)
    const resolver = openResolver({ servers: ['127.0.0.1:9', dns.server], hostsPath })
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
  })
})

suite('names that hang', { concurrency: true }, () => {
  test('fails at the deadline if nothing answers', async (t) => {
    const { dns, resolver } = await stage(t, { timeoutMs: 200 })
    dns.tell('hangs.test', { silent: true })
    assert.deepEqual(await resolver.resolve('hangs.test'), failed('dns-timeout'))
  })

  test('retries a lost query within the deadline', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', (_, nth) => (nth === 0 ? { silent: true } : { addresses: ['192.0.2.1'] }))
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
  })

  test('resolves another name while eight hang', async (t) => {
    const { dns, resolver } = await stage(t)
    for (let index = 0; index < 8; index++) dns.tell(`hangs-${index}.test`, { silent: true })
    dns.tell('good.test', { addresses: ['192.0.2.1'] })
    const hanging = Array.from({ length: 8 }, (_, index) => resolver.resolve(`hangs-${index}.test`))
    await until(() => dns.asked.length >= 16)
    const first = await Promise.race([resolver.resolve('good.test'), ...hanging])
    assert.deepEqual(addressesOf(first), ['192.0.2.1'])
    resolver.close()
    for (const one of await Promise.all(hanging)) assert.deepEqual(one, failed('dns-error', 'CANCELLED'))
  })

  test('refuses more than a thousand lookups at once, and accepts more when they end', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('good.test', { addresses: ['192.0.2.1'] })
    const hanging = Array.from({ length: 1_000 }, (_, index) => {
      dns.tell(`hangs-${index}.test`, { silent: true })
      return resolver.resolve(`hangs-${index}.test`)
    })
    assert.deepEqual(await resolver.resolve('good.test'), failed('dns-error', 'OVERLOAD'))
    resolver.close()
    await Promise.all(hanging)
    assert.deepEqual(addressesOf(await resolver.resolve('good.test')), ['192.0.2.1'])
  })

  test('counts a lookup while its queries are in progress', async (t) => {
    const { dns, resolver } = await stage(t, { timeoutMs: 60_000 })
    const lookups: Promise<DnsResult>[] = []
    while (lookups.length < 1_000) {
      for (let index = 0; index < FEW; index++) {
        const name = `half-${lookups.length}.test`
        dns.tell(name, (type) => (type === 'A' ? { addresses: ['192.0.2.1'], delayMs: 500 } : { silent: true }))
        lookups.push(resolver.resolve(name))
      }
      // Each at least once, since unanswered queries are retried.
      await until(() => new Set(dns.asked.map(({ name, type }) => `${name} ${type}`)).size === 2 * lookups.length)
    }
    for (const one of await Promise.all(lookups)) addressesOf(one)
    assert.deepEqual(await resolver.resolve('good.test'), failed('dns-error', 'OVERLOAD'))
  })
})

suite('names that the machine knows itself', () => {
  test('prefers the hosts file and sends no query', async (t) => {
    const { dns, resolver } = await stage(t, { hosts: '192.0.2.9 a.test\n2001:db8::9 a.test\n' })
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(await resolver.resolve('a.test'), {
      kind: 'addresses',
      addresses: ['192.0.2.9', '2001:db8::9'],
      ttlMs: 1_000,
    })
    assert.equal(dns.asked.length, 0)
  })

  test('finds a name added to the hosts file later', async (t) => {
    const { dns, resolver, hostsPath } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
    writeFileSync(hostsPath, '192.0.2.9 a.test\n')
    await until(async () => addressesOf(await resolver.resolve('a.test'))[0] === '192.0.2.9')
  })

  test('resolves localhost and names below it to loopback without a query', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('localhost', { addresses: ['192.0.2.1'] })
    for (const name of ['localhost', 'app.localhost', 'a.b.localhost'])
      assert.deepEqual(addressesOf(await resolver.resolve(name)), ['127.0.0.1', '::1'])
    assert.equal(dns.asked.length, 0)
  })

  test('does not treat a name that merely ends in localhost as loopback', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const name of ['notlocalhost', 'localhost.test']) {
      assert.deepEqual(await resolver.resolve(name), failed('dns-error', 'NXDOMAIN'))
      assert.equal(dns.count(name, 'A'), 1)
    }
  })

  test('follows the hosts file for localhost', async (t) => {
    const { resolver } = await stage(t, { hosts: '::1 localhost\n' })
    assert.deepEqual(addressesOf(await resolver.resolve('localhost')), ['::1'])
  })
})

suite('the settings of the system', () => {
  test('does not try search domains', async (t) => {
    const { dns, hostsPath } = await stage(t)
    for (const name of ['intranet.corp.test', 'a.b.corp.test']) dns.tell(name, { addresses: ['192.0.2.1'] })
    const script = `import { openResolver } from ${RESOLVER}
      const resolver = openResolver(${JSON.stringify({ servers: [dns.server], hostsPath })})
      for (const name of ['intranet', 'a.b']) console.log((await resolver.resolve(name)).rcode)`
    const env = { ...process.env, LOCALDOMAIN: 'corp.test', RES_OPTIONS: 'ndots:5' }
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env })
    assert.equal(stdout, 'NXDOMAIN\nNXDOMAIN\n')
    assert.deepEqual([...new Set(dns.asked.map(({ name }) => name))], ['intranet', 'a.b'])
  })

  test(
    'the servers of resolv.conf are asked, and others when it changes; its search domains are not tried',
    needs('root'),
    async (t) => {
      const [before, after] = [await openFakeDns(t), await openFakeDns(t)]
      before.tell('a.test', { addresses: ['192.0.2.1'] })
      after.tell('a.test', { addresses: ['192.0.2.2'] })
      const path = join(tempDir(t), 'resolv.conf')
      const settings = ({ server }: FakeDns): string => `search corp.test\noptions ndots:5\nnameserver ${server}\n`
      writeFileSync(path, settings(before))
      const script = `import { setTimeout as pause } from 'node:timers/promises'
      import { openResolver } from ${RESOLVER}
      const resolver = openResolver()
      for (;;) {
        console.log((await resolver.resolve('a.test')).addresses?.join())
        await pause(50)
      }`
      const mount = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
      const args = ['-m', 'sh', '-c', mount, path, process.execPath, '--input-type=module', '-e', script]
      const child = spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] })
      t.after(() => child.kill())
      const lines = createInterface(child.stdout)
      const [first] = await once(lines, 'line')
      assert.equal(first, '192.0.2.1')
      writeFileSync(path, settings(after))
      let last = ''
      lines.on('line', (line) => {
        last = line
      })
      await until(() => last === '192.0.2.2')
      assert.ok([...before.asked, ...after.asked].every(({ name }) => name === 'a.test'))
    },
  )
})

test('reports that no file could be opened, not that the name is unknown', needs('kernel'), async (t) => {
  const { dns, resolver } = await stage(t)
  dns.tell('a.test', { addresses: ['192.0.2.1'] })
  const restore = leaveOpenFiles(0)
  t.after(restore)
  const asking = resolver.resolve('a.test')
  // What counts is that there was none when it was queried.
  restore()
  const resolved = await asking
  assert.deepEqual(resolved, failed('out-of-files'))
  assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
})
