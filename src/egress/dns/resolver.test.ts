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
import { openResolver, type Resolved, type Resolver, type ResolverOptions } from './resolver.ts'

const RESOLVER = JSON.stringify(new URL('./resolver.ts', import.meta.url).href)

/** As many questions at once as the buffer of the server's socket surely holds. */
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

const addressesOf = (resolved: Resolved): readonly string[] =>
  resolved.kind === 'addresses' ? resolved.addresses : assert.fail(`it failed: ${JSON.stringify(resolved)}`)
const ttlOf = (resolved: Resolved): number =>
  resolved.kind === 'addresses' ? resolved.ttlMs : assert.fail(`it failed: ${JSON.stringify(resolved)}`)
const failed = (code: string, rcode?: string) => ({ kind: 'failed', code, ...(rcode !== undefined && { rcode }) })

suite('the DNS', () => {
  test('a name resolves to its addresses of both families', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1', '2001:db8::1'] })
    const addresses = addressesOf(await resolver.resolve('a.test'))
    assert.deepEqual([...addresses].sort(), ['192.0.2.1', '2001:db8::1'])
  })

  test('addresses keep the order of the answer, the families in turns', async (t) => {
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

  test('an address has one spelling: IPv4 written as IPv6 is the IPv4 address', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:192.0.2.2'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1', '192.0.2.2'])
  })

  test('each lookup asks once for each family, and the resolver itself remembers nothing', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    await resolver.resolve('a.test')
    assert.deepEqual([dns.count('a.test', 'A'), dns.count('a.test', 'AAAA'), dns.asked.length], [1, 1, 2])
    await resolver.resolve('a.test')
    assert.deepEqual([dns.count('a.test', 'A'), dns.count('a.test', 'AAAA')], [2, 2])
  })

  test('D2: a name that points elsewhere at each question gives what one question was answered', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('flips.test', (type, nth) => ({ addresses: type === 'A' ? [nth === 0 ? '192.0.2.1' : '127.0.0.1'] : [] }))
    assert.deepEqual(addressesOf(await resolver.resolve('flips.test')), ['192.0.2.1'])
    assert.equal(dns.count('flips.test', 'A'), 1)
    assert.deepEqual(addressesOf(await resolver.resolve('flips.test')), ['127.0.0.1'])
  })

  test('the same name asked for again while it is under way is one lookup', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    const all = await Promise.all(Array.from({ length: 50 }, () => resolver.resolve('a.test')))
    for (const one of all) assert.deepEqual(addressesOf(one), ['192.0.2.1'])
    assert.equal(dns.count('a.test', 'A'), 1)
  })
})

suite('how long an answer holds', () => {
  test('as long as the DNS says, when that is between a second and a minute', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'], ttl: 30 })
    assert.equal(ttlOf(await resolver.resolve('a.test')), 30_000)
  })

  test('D10: with a TTL of 0 a second', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'], ttl: 0 })
    assert.equal(ttlOf(await resolver.resolve('a.test')), 1_000)
  })

  test('D10: with a huge TTL a minute', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const ttl of [86_400, 0x7fff_ffff, 0xffff_ffff]) {
      dns.tell('a.test', { addresses: ['192.0.2.1'], ttl })
      assert.equal(ttlOf(await resolver.resolve('a.test')), 60_000)
    }
  })

  test('as long as the shortest of the family answers and of the aliases on the way', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', (type) => ({ addresses: ['192.0.2.1', '2001:db8::1'], ttl: type === 'A' ? 40 : 20 }))
    dns.tell('alias.test', { cname: 'a.test', ttl: 5 })
    assert.equal(ttlOf(await resolver.resolve('a.test')), 20_000)
    assert.equal(ttlOf(await resolver.resolve('alias.test')), 5_000)
  })
})

suite('answers that are out of the ordinary', () => {
  test('D10: of 100 answers 16 are used, and both families are among them', async (t) => {
    const { dns, resolver } = await stage(t)
    const four = Array.from({ length: 100 }, (_, index) => `192.0.2.${index}`)
    const six = Array.from({ length: 100 }, (_, index) => `2001:db8::${(index + 1).toString(16)}`)
    dns.tell('many.test', { addresses: [...four, ...six] })
    const addresses = addressesOf(await resolver.resolve('many.test'))
    assert.deepEqual([...addresses].sort(), [...four.slice(0, 8), ...six.slice(0, 8)].sort())
    assert.ok(dns.asked.some(({ over }) => over === 'tcp'))
  })

  test('D10: aliases are followed to their addresses, and nobody is asked about what they are called', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { cname: 'b.denied.test' })
    dns.tell('b.denied.test', { cname: 'c.denied.test' })
    dns.tell('c.denied.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
    assert.ok(dns.asked.every(({ name }) => name === 'a.test'))
  })

  test('D10, E9: aliases in a circle are an error, at once', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', { cname: 'b.test' })
    dns.tell('b.test', { cname: 'a.test' })
    assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'NODATA'))
  })

  test('D10, E9: a name that does not exist is an error that says so', async (t) => {
    const { resolver } = await stage(t)
    assert.deepEqual(await resolver.resolve('none.test'), failed('dns-error', 'NXDOMAIN'))
  })

  test('D10: a name without any address is an error that says so', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', {})
    assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'NODATA'))
  })

  test("a server's refusal is an error that says which", async (t) => {
    const { dns, resolver } = await stage(t)
    for (const rcode of ['SERVFAIL', 'REFUSED', 'NOTIMP', 'FORMERR'] as const) {
      dns.tell('a.test', { rcode })
      assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', rcode))
    }
  })

  test('where one family fails and the other is empty, the failure is told', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const broken of ['A', 'AAAA']) {
      dns.tell('a.test', (type) => (type === broken ? { rcode: 'SERVFAIL' } : {}))
      assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'SERVFAIL'))
    }
  })

  test('a family that fails does not spoil the other', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const rcode of ['SERVFAIL', 'NXDOMAIN', 'NOTIMP'] as const) {
      dns.tell('a.test', (type) => (type === 'A' ? { addresses: ['192.0.2.1'] } : { rcode }))
      assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
      dns.tell('a.test', (type) => (type === 'AAAA' ? { addresses: ['2001:db8::1'] } : { rcode }))
      assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['2001:db8::1'])
    }
  })

  test('a family that never answers is not waited for, and what the other said holds for a second', async (t) => {
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

  test('a server that is not there is an error', async (t) => {
    const { resolver } = await stage(t, { servers: ['127.0.0.1:9'] })
    assert.deepEqual(await resolver.resolve('a.test'), failed('dns-error', 'CONNREFUSED'))
  })

  test('of several servers one that is not there is passed over', async (t) => {
    const { dns, hostsPath } = await stage(t)
    const resolver = openResolver({ servers: ['127.0.0.1:9', dns.server], hostsPath })
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
  })
})

suite('names that hang', { concurrency: true }, () => {
  test('E9: a name that nobody answers fails at the deadline', async (t) => {
    const { dns, resolver } = await stage(t, { timeoutMs: 200 })
    dns.tell('hangs.test', { silent: true })
    assert.deepEqual(await resolver.resolve('hangs.test'), failed('dns-timeout'))
  })

  test('a question that was lost is asked again within the deadline', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('a.test', (_, nth) => (nth === 0 ? { silent: true } : { addresses: ['192.0.2.1'] }))
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
  })

  test('D9: eight names that hang do not hold up a good one', async (t) => {
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

  test('past a thousand lookups under way the next is refused at once, and there is room again when they end', async (t) => {
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

  test('a lookup that did not wait for all its answers counts while its questions are out', async (t) => {
    const { dns, resolver } = await stage(t, { timeoutMs: 60_000 })
    const lookups: Promise<Resolved>[] = []
    while (lookups.length < 1_000) {
      for (let index = 0; index < FEW; index++) {
        const name = `half-${lookups.length}.test`
        dns.tell(name, (type) => (type === 'A' ? { addresses: ['192.0.2.1'], delayMs: 500 } : { silent: true }))
        lookups.push(resolver.resolve(name))
      }
      // Each at least once: what stays without an answer is asked again.
      await until(() => new Set(dns.asked.map(({ name, type }) => `${name} ${type}`)).size === 2 * lookups.length)
    }
    for (const one of await Promise.all(lookups)) addressesOf(one)
    assert.deepEqual(await resolver.resolve('good.test'), failed('dns-error', 'OVERLOAD'))
  })
})

suite('names that the machine knows itself', () => {
  test('D12: the hosts file goes before the DNS, which is not asked', async (t) => {
    const { dns, resolver } = await stage(t, { hosts: '192.0.2.9 a.test\n2001:db8::9 a.test\n' })
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(await resolver.resolve('a.test'), {
      kind: 'addresses',
      addresses: ['192.0.2.9', '2001:db8::9'],
      ttlMs: 1_000,
    })
    assert.equal(dns.asked.length, 0)
  })

  test('a name that the hosts file gets while the proxy runs is found there', async (t) => {
    const { dns, resolver, hostsPath } = await stage(t)
    dns.tell('a.test', { addresses: ['192.0.2.1'] })
    assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
    writeFileSync(hostsPath, '192.0.2.9 a.test\n')
    await until(async () => addressesOf(await resolver.resolve('a.test'))[0] === '192.0.2.9')
  })

  test('localhost and what is below it are the loopback, also when no file says so, and the DNS is not asked', async (t) => {
    const { dns, resolver } = await stage(t)
    dns.tell('localhost', { addresses: ['192.0.2.1'] })
    for (const name of ['localhost', 'app.localhost', 'a.b.localhost'])
      assert.deepEqual(addressesOf(await resolver.resolve(name)), ['127.0.0.1', '::1'])
    assert.equal(dns.asked.length, 0)
  })

  test('a name that only ends in the letters of localhost is not the loopback', async (t) => {
    const { dns, resolver } = await stage(t)
    for (const name of ['notlocalhost', 'localhost.test']) {
      assert.deepEqual(await resolver.resolve(name), failed('dns-error', 'NXDOMAIN'))
      assert.equal(dns.count(name, 'A'), 1)
    }
  })

  test('localhost is what the hosts file says it is', async (t) => {
    const { resolver } = await stage(t, { hosts: '::1 localhost\n' })
    assert.deepEqual(addressesOf(await resolver.resolve('localhost')), ['::1'])
  })
})

suite('the settings of the system', () => {
  test('D11: search domains are not tried', async (t) => {
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

test('where no file can be opened, that is said, and not that the name is unknown', needs('kernel'), async (t) => {
  const { dns, resolver } = await stage(t)
  dns.tell('a.test', { addresses: ['192.0.2.1'] })
  const restore = leaveOpenFiles(0)
  t.after(restore)
  const asking = resolver.resolve('a.test')
  // It counts that there was none when it was asked for.
  restore()
  const resolved = await asking
  assert.deepEqual(resolved, failed('out-of-files'))
  assert.deepEqual(addressesOf(await resolver.resolve('a.test')), ['192.0.2.1'])
})
