import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { stringify } from 'yaml'
import { Refusal } from '../lib/refusal.ts'
import { type Fragment, parseFragment } from './fragment.ts'

const withService = (service: object, rest: object = {}): string =>
  stringify({ services: { gateway: { image: 'example/gateway:1.2', ...service } }, ...rest })

async function refusalOf(text: string, name = 'gateway'): Promise<string> {
  try {
    await parseFragment(text, name)
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
  return 'accepted'
}

suite('a fragment', () => {
  test('keeps what a service may say', async () => {
    const text = withService(
      {
        command: ['--port', 4000],
        environment: { MODE: 'plain', COUNT: 2, PRICE: '5$$' },
        volumes: [
          'data:/data',
          './config.yaml:/etc/config.yaml:ro',
          { type: 'bind', source: './more', target: '/more', read_only: true },
        ],
        depends_on: ['routd'],
        healthcheck: { test: ['CMD', 'true'], interval: '30s', retries: 3 },
        user: '1000:1000',
        tmpfs: '/tmp',
        mem_limit: '1g',
      },
      { volumes: { data: null }, 'x-svc': { hosts: ['API.example.com'], settings: ['GATEWAY_KEY'] } },
    )
    const { name, services, volumes, hosts, settings } = await parseFragment(text, 'gateway')
    assert.deepEqual([name, volumes, hosts, settings], ['gateway', ['data'], ['api.example.com'], ['GATEWAY_KEY']])
    assert.deepEqual(services.get('gateway'), {
      image: 'example/gateway:1.2',
      command: ['--port', '4000'],
      environment: { MODE: 'plain', COUNT: '2', PRICE: '5$' },
      volumes: [
        { kind: 'volume', source: 'data', target: '/data', isReadOnly: false },
        { kind: 'file', source: 'config.yaml', target: '/etc/config.yaml', isReadOnly: true },
        { kind: 'file', source: 'more', target: '/more', isReadOnly: true },
      ],
      depends_on: { routd: 'service_started' },
      healthcheck: { test: ['CMD', 'true'], interval: '30s', retries: 3 },
      user: '1000:1000',
      tmpfs: ['/tmp'],
      mem_limit: '1g',
    })
  })

  const refused: Record<string, [object, RegExp]> = {
    'a host path': [{ volumes: ['/etc:/etc:ro'] }, /mounts the path "\/etc" of this machine; use a named volume/],
    'the engine socket': [{ volumes: ['/var/run/docker.sock:/s'] }, /mounts the path/],
    'a home path': [{ volumes: ['~/x:/x'] }, /mounts the path "~\/x"/],
    'a parent path': [{ volumes: ['../x:/x:ro'] }, /mounts the path/],
    'a path that climbs out': [{ volumes: ['./a/../../x:/x:ro'] }, /is not a path inside the package/],
    'a bind with a host path': [{ volumes: [{ type: 'bind', source: '/', target: '/host' }] }, /mounts the path "\/"/],
    'a writable file of the package': [{ volumes: ['./x:/x'] }, /writable; add :ro/],
    'an undeclared volume': [{ volumes: ['data:/data'] }, /does not declare under volumes/],
    privileged: [{ privileged: true }, /privileged is not allowed in a package: it gives the container every right/],
    'privileged, even if it is off': [{ privileged: false }, /privileged is not allowed/],
    'the network of the host': [{ network_mode: 'host' }, /network_mode is not allowed/],
    'the processes of the host': [{ pid: 'host' }, /pid is not allowed/],
    'the memory of the host': [{ ipc: 'host' }, /ipc is not allowed/],
    'the users of the host': [{ userns_mode: 'host' }, /userns_mode is not allowed/],
    capabilities: [{ cap_add: ['SYS_ADMIN'] }, /cap_add is not allowed/],
    devices: [{ devices: ['/dev/sda'] }, /devices is not allowed/],
    'security options': [{ security_opt: ['seccomp=unconfined'] }, /security_opt is not allowed/],
    ports: [{ ports: ['80:80'] }, /ports is not allowed in a package: it opens a port of this machine/],
    'a file of variables': [{ env_file: '.env' }, /env_file is not allowed/],
    'a build': [{ build: '.' }, /build is not allowed/],
    'an unknown key': [{ imgae: 'x' }, /unknown field "imgae"/],
    'no image': [{ image: undefined }, /image is required/],
    root: [{ user: '0' }, /must be the number of a user other than root/],
    'the name of root': [{ user: 'root' }, /other than root/],
    'a variable of the shell': [{ command: ['--key', '$' + '{HOME}'] }, /uses a variable/],
    'a variable without a value': [
      { environment: ['HOME'] },
      /must have lines such as KEY=value|none of the allowed forms/,
    ],
  }
  for (const [what, [service, sentence]] of Object.entries(refused))
    test(`refuses ${what}`, async () => {
      const message = await refusalOf(withService(service))
      assert.match(message, sentence)
      assert.match(message, /^services\/gateway\.yml: /)
      assert.doesNotMatch(message, /\n/)
    })

  test('refuses names of services of svc, and other files', async () => {
    assert.match(await refusalOf('services: { routd: { image: x } }'), /routd is the name of a service of svc itself/)
    assert.match(await refusalOf('services: { egress-proxy: { image: x } }'), /name of a service of svc/)
    assert.match(await refusalOf('services: { "A B": { image: x } }'), /must be named with lower-case letters/)
    assert.match(await refusalOf('services: {}'), /has no services/)
    assert.match(await refusalOf('include: [/etc/passwd]\nservices: { a: { image: x } }'), /include is not allowed/)
    assert.match(await refusalOf('networks: { host: null }\nservices: { a: { image: x } }'), /networks is not allowed/)
    assert.match(await refusalOf(withService({}, { volumes: { data: { driver_opts: { device: '/' } } } })), /volumes/)
    assert.match(await refusalOf(withService({}), '../x'), /must be named/)
    assert.match(await refusalOf('services: ['), /is not valid YAML/)
    assert.match(await refusalOf('a: &a [x]\nservices: *a'), /is not valid YAML/)
    assert.match(await refusalOf(withService({}, { 'x-svc': { hosts: ['*'] } })), /would allow every host/)
    assert.match(
      await refusalOf(withService({}, { 'x-svc': { settings: ['SECRETS_KEY'] } })),
      /SECRETS_KEY, which no other/,
    )
  })

  test('mounts nothing of the host, whatever it says', async () => {
    const path = fc
      .array(fc.constantFrom('.', '..', '/', 'a', '~', ':', 'ro', '$', 'data'), { maxLength: 8 })
      .map((parts) => parts.join(''))
    await fc.assert(
      fc.asyncProperty(fc.array(path, { maxLength: 3 }), async (volumes) => {
        const parsed: Fragment | undefined = await parseFragment(
          withService({ volumes }, { volumes: { data: null } }),
          'x',
        ).catch((error) => {
          assert.ok(error instanceof Refusal)
          return undefined
        })
        for (const { kind, source, isReadOnly } of parsed?.services.get('gateway')?.volumes ?? []) {
          if (kind === 'volume') assert.equal(source, 'data')
          else assert.ok(isReadOnly && !source.startsWith('/') && !source.split('/').includes('..'), source)
        }
      }),
      { numRuns: 300 },
    )
  })
})
