import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parse } from 'yaml'
import { z } from 'zod'
import { DAEMON_NAMES } from '../daemons/settings.ts'
import { readRegistration } from '../egress/policy/registration.ts'
import { tryParseJson } from '../lib/text/json.ts'
import { type ComposeInput, composeText, egressState } from './compose-document.ts'
import { containerNetworks, pairedAddress } from './container-networks.ts'
import { type Fragment, parseFragment } from './fragment.ts'
import { isUnedited } from './stamped-file.ts'

const envFiles = Object.fromEntries(DAEMON_NAMES.map((name) => [name, `/srv/data/svc_demo/env/${name}-0.env`]))

function input(changes: Partial<ComposeInput> = {}): ComposeInput {
  return {
    instance: 'demo',
    root: '/srv/data/svc_demo',
    image: 'svc-host:1.0.0',
    networks: containerNetworks('10.77.0.0/22', ''),
    user: { uid: 60_000, gid: 60_001 },
    envFiles: envFiles as ComposeInput['envFiles'],
    stateFile: '/srv/data/svc_demo/env/egress-0.json',
    egressConfig: '/srv/data/svc_demo/env/egress-admin-0.txt',
    published: { proxyd: '0.0.0.0:80', routd: '127.0.0.1:81' },
    hasOutsideDatabase: false,
    engineSocket: { path: '/run/engine.sock', gid: 999 },
    fragments: [],
    serviceEnvFiles: new Map(),
    ...changes,
  }
}

const Service = z.looseObject({
  image: z.string(),
  user: z.string().optional(),
  read_only: z.boolean().optional(),
  cap_drop: z.array(z.string()),
  security_opt: z.array(z.string()),
  ports: z.array(z.string()).optional(),
  environment: z.record(z.string(), z.string()),
  volumes: z
    .array(z.looseObject({ source: z.string(), target: z.string(), read_only: z.boolean().optional() }))
    .optional(),
  networks: z.record(z.string(), z.record(z.string(), z.string())),
  healthcheck: z.object({}).optional(),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).optional(),
})
const Written = z.object({
  services: z.record(z.string(), Service),
  networks: z.record(z.string(), z.looseObject({ internal: z.boolean().optional() })),
  volumes: z.record(z.string(), z.object({})).optional(),
})

async function written(changes: Partial<ComposeInput> = {}) {
  return Written.parse(parse(await composeText(input(changes))))
}

async function fragment(text: string, name = 'gateway'): Promise<Fragment> {
  return parseFragment(text, name)
}

const GATEWAY = `
services:
  gateway:
    image: example/gateway:1
    command: [--price, 5$$]
    environment: { MODE: "on" }
    volumes: [data:/data, ./config.yml:/etc/config.yml:ro]
    depends_on: [routd]
volumes: { data: }
x-svc: { hosts: [api.example.com] }
`

suite('the compose file', () => {
  test('runs every daemon without rights', async () => {
    const { services } = await written()
    assert.deepEqual(Object.keys(services), [...DAEMON_NAMES, 'egress-proxy'])
    for (const [name, service] of Object.entries(services)) {
      assert.equal(service.user, '60000:60001', name)
      assert.equal(service.read_only, true, name)
      assert.deepEqual([service.cap_drop, service.security_opt], [['ALL'], ['no-new-privileges:true']], name)
      assert.equal(service.restart, 'unless-stopped', name)
      assert.ok(service.healthcheck, name)
    }
  })

  test('publishes proxyd and, on loopback, routd', async () => {
    const { services } = await written()
    const published = Object.entries(services).flatMap(([name, { ports }]) => (ports ? [[name, ...ports]] : []))
    assert.deepEqual(published, [
      ['proxyd', '0.0.0.0:80:8080'],
      ['routd', '127.0.0.1:81:8080'],
    ])
  })

  test('gives the socket of the engine to runed alone', async () => {
    const { services } = await written()
    const mounting = Object.entries(services).flatMap(([name, { volumes = [] }]) =>
      volumes.some(({ source }) => source === '/run/engine.sock') ? [name] : [],
    )
    assert.deepEqual(mounting, ['runed'])
    assert.deepEqual(services.runed?.group_add, ['999'])
    const { services: without } = await written({ engineSocket: undefined })
    assert.doesNotMatch(JSON.stringify(without), /engine\.sock|group_add/)
  })

  test('mounts one .env per daemon, and web read-only at proxyd', async () => {
    const { services } = await written()
    for (const name of DAEMON_NAMES) {
      const env = services[name]?.volumes?.find(({ target }) => target === '/data/svc_demo/.env')
      assert.deepEqual([env?.source, env?.read_only], [`/srv/data/svc_demo/env/${name}-0.env`, true])
    }
    assert.equal(services.proxyd?.volumes?.find(({ target }) => target.endsWith('/web'))?.read_only, true)
  })

  test('mounts the files of adapters at routd alone, writable', async () => {
    const { services } = await written()
    const mounts = Object.entries(services).flatMap(([name, { volumes = [] }]) =>
      volumes.flatMap(({ source, target, read_only }) =>
        source === '/srv/data/svc_demo/channels' ? [[name, target, read_only]] : [],
      ),
    )
    assert.deepEqual(mounts, [['routd', '/data/svc_demo/channels', undefined]])
  })

  test('lets only outbound daemons and egress-proxy out', async () => {
    const { services, networks } = await written()
    const on = (network: string): string[] => Object.keys(services).filter((name) => services[name]?.networks[network])
    assert.deepEqual(on('outbound'), ['routd', 'gated', 'runed', 'authd', 'dashd', 'egress-proxy'])
    assert.deepEqual(on('front'), ['proxyd', 'routd'])
    assert.deepEqual([networks.internal?.internal, networks.packages?.internal], [true, true])
    const { services: remote } = await written({ hasOutsideDatabase: true })
    assert.ok(remote.timed?.networks.outbound, 'the database is outside')
    const { services: traced } = await written({ hasCollector: true })
    assert.ok(traced.webd?.networks.outbound, 'the collector is outside')
    assert.equal(traced.onbod?.networks.outbound, undefined)
  })

  test('runs PostgreSQL without a password in the file, and daemons after it', async () => {
    const postgres = { image: 'postgres:17', passwordFile: '/srv/data/svc_demo/env/postgres-password-0.txt' }
    const { services } = await written({ postgres, postgresPassword: 'geheim' })
    assert.equal(services.postgres?.environment.POSTGRES_PASSWORD_FILE, '/run/password')
    assert.deepEqual(Object.keys(services.postgres?.networks ?? {}), ['internal'])
    for (const name of DAEMON_NAMES)
      assert.deepEqual(services[name]?.depends_on, { postgres: { condition: 'service_healthy' } })
    assert.doesNotMatch(JSON.stringify(services), /geheim/)
  })

  test('confines the services of packages', async () => {
    const { services, volumes } = await written({ fragments: [await fragment(GATEWAY)] })
    const { gateway } = services
    assert.deepEqual(Object.keys(gateway?.networks ?? {}), ['packages'])
    assert.equal(gateway?.environment.HTTPS_PROXY, 'http://egress-proxy:3128')
    assert.equal(gateway?.environment.https_proxy, 'http://egress-proxy:3128')
    assert.match(gateway?.environment.NO_PROXY ?? '', /\broutd\b.*\bgateway\b/)
    assert.equal(gateway?.environment.MODE, 'on')
    assert.deepEqual([gateway?.cap_drop, gateway?.security_opt], [['ALL'], ['no-new-privileges:true']])
    assert.deepEqual(
      gateway?.volumes?.map(({ source, target }) => [source, target]),
      [
        ['gateway_data', '/data'],
        ['/srv/data/svc_demo/services/gateway/config.yml', '/etc/config.yml'],
      ],
    )
    assert.deepEqual(Object.keys(volumes ?? {}), ['gateway_data'])
    assert.deepEqual(gateway?.command, ['--price', '5$$'], 'escaped for compose')
  })

  test('registers both addresses of a service at egress-proxy', async () => {
    const fragments = [await fragment(GATEWAY), await fragment('services: { a: { image: a } }', 'a')]
    const entries = z.array(z.unknown()).parse(tryParseJson(egressState(input({ fragments }))))
    assert.deepEqual(entries.map(readRegistration), [
      { ip: '10.77.1.100', id: 'a', allowlist: [] },
      { ip: '10.77.1.170', id: 'a', allowlist: [] },
      { ip: '10.77.1.101', id: 'gateway', allowlist: ['api.example.com'] },
      { ip: '10.77.1.171', id: 'gateway', allowlist: ['api.example.com'] },
    ])
    const { services } = await written({ fragments })
    assert.equal(services.gateway?.networks.packages?.ipv4_address, '10.77.1.101')
    assert.equal(pairedAddress('10.77.1.101'), '10.77.1.171')
    assert.equal(pairedAddress('10.77.0.250'), '10.77.0.251')
    assert.deepEqual(tryParseJson(egressState(input())), [])
  })

  test('is the same for the same input, and knows its own text', async () => {
    const fragments = [await fragment(GATEWAY), await fragment('services: { a: { image: a } }', 'a')]
    const [one, other] = await Promise.all([
      composeText(input({ fragments })),
      composeText(input({ fragments: fragments.toReversed() })),
    ])
    assert.equal(one, other)
    assert.ok(isUnedited(one))
    for (const edited of [
      `${one} `,
      one.replace('unless-stopped', 'always'),
      one.slice(0, -1),
      `\n${one}`,
      one.split('\n').slice(1).join('\n'),
    ])
      assert.ok(!isUnedited(edited))
  })

  test('keeps any path and image, whatever characters they have', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'grapheme' }),
        fc.constantFrom('on', '1:30', '010', '~', '$X', `\${Y}`, '- a', ': b'),
        async (tail, tricky) => {
          const root = `/srv/${tricky}${tail}`
          const { services } = await written({
            image: `${tricky}${tail}`,
            envFiles: { ...input().envFiles, webd: root },
          })
          assert.equal(services.webd?.image.replaceAll('$$', '$'), `${tricky}${tail}`)
          assert.equal(services.webd?.volumes?.[0]?.source.replaceAll('$$', '$'), root)
          assert.doesNotMatch(services.webd?.image.replaceAll('$$', '') ?? '', /\$/)
        },
      ),
      { numRuns: 30 },
    )
  })
})

suite('the networks of containers', () => {
  test('are four ranges of 256 addresses, by the data directory', () => {
    const { subnets } = containerNetworks(undefined, '/srv/data/svc_demo')
    const [internal = '', packages = ''] = Object.values(subnets)
    assert.match(internal, /^10\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.\d+\.0\/24$/)
    assert.equal(new Set(Object.values(subnets)).size, 4)
    assert.equal(Number(packages.split('.')[2]), Number(internal.split('.')[2]) + 1)
    assert.notDeepEqual(containerNetworks(undefined, '/srv/data/svc_other').subnets, subnets)
    assert.deepEqual(containerNetworks('10.77.4.0/22', '/x').subnets, {
      internal: '10.77.4.0/24',
      packages: '10.77.5.0/24',
      front: '10.77.6.0/24',
      outbound: '10.77.7.0/24',
    })
  })
})
