import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { z } from 'zod'
import { needs } from '../../test/support/needs.ts'
import { fillUp, onSmallDisk } from '../../test/support/small-disk.ts'
import { type CleanupScope, tempDir } from '../../test/support/temp.ts'
import { layout } from '../core/layout.ts'
import { readServeSettings } from '../egress/settings/serve-settings.ts'
import { Refusal } from '../lib/refusal.ts'
import { sourceOf } from '../lib/settings.ts'
import { findContainerOwner, type GeneratedCompose, type GenerateOptions, generateCompose } from './compose-files.ts'

const ENTRIES = { SECRETS_KEY: 'a key of the tests', CHANNEL_SECRET: 'shared', WEB_LISTEN: '127.0.0.1:8080' }
const uid = process.getuid?.() ?? 0

interface Site {
  readonly root: string
  readonly compose: string
  readonly warnings: string[]
  generate(entries?: Record<string, string>, changes?: Partial<GenerateOptions>): Promise<GeneratedCompose>
  /** The message of the refusal. */
  refusal(entries?: Record<string, string>, changes?: Partial<GenerateOptions>): Promise<string>
  /** Content of env/ by name, without the hash. */
  files(): Record<string, string>
}

function site(t: CleanupScope, root = join(tempDir(t), 'svc_demo')): Site {
  mkdirSync(root, { recursive: true })
  const agent = uid === 0 ? { uid: 60_000, gid: 60_000, count: 1000 } : undefined
  const at = layout(root, agent)
  const warnings: string[] = []
  const generate: Site['generate'] = (entries = {}, changes = {}) =>
    generateCompose({
      instance: 'demo',
      layout: at,
      entries: new Map(Object.entries({ ...ENTRIES, ...entries })),
      isForced: false,
      uid,
      warn: (text) => warnings.push(text),
      ...changes,
    })
  return {
    root,
    compose: at.compose,
    warnings,
    generate,
    refusal: async (entries, changes) => {
      try {
        await generate(entries, changes)
      } catch (error) {
        if (error instanceof Refusal) return `${error.message}\n${error.hint ?? ''}`
        throw error
      }
      return 'accepted'
    },
    files: () =>
      Object.fromEntries(
        readdirSync(at.daemonEnvs).map((name) => [
          name.replace(/-[0-9a-f]{16}\./, '.'),
          readFileSync(join(at.daemonEnvs, name), 'utf8'),
        ]),
      ),
  }
}

suite('svc generate', () => {
  test('writes a readable compose file without secrets, and a private file for each daemon', async (t) => {
    const { root, compose, generate, files } = site(t)
    const { services, isChanged, image } = await generate({
      OIDC_X_SECRET: 'of a provider',
      OIDC_X_ID: 'x',
      OIDC_X_ISSUER: 'https://x.example',
    })
    assert.deepEqual([services.length, isChanged], [10, true])
    assert.match(image, /^svc-host:\d/)
    assert.equal(statSync(compose).mode & 0o777, 0o644)
    const text = readFileSync(compose, 'utf8')
    for (const secret of ['a key of the tests', 'shared', 'of a provider']) assert.ok(!text.includes(secret), secret)
    for (const name of readdirSync(join(root, 'env')))
      assert.equal(statSync(join(root, 'env', name)).mode & 0o777, 0o600)
    assert.match(files()['authd.env'] ?? '', /^OIDC_X_SECRET='of a provider'$/m)
    assert.doesNotMatch(files()['timed.env'] ?? '', /a key of the tests|shared|provider/)
    for (const name of ['store', 'groups', 'chats', 'logs', 'ipc', 'web', 'outbox', 'speech'])
      assert.ok(existsSync(join(root, name)), name)
  })

  test('tells containers where links lead and how operators start svc on this machine', async (t) => {
    const { root, compose, generate, files } = site(t)
    await generate({ WEB_LISTEN: '127.0.0.1:9001', WEB_HOST: 'localhost:8080' })
    assert.match(files()['dashd.env'] ?? '', /^WEB_HOST='?localhost:9001'?$/m)
    assert.ok(readFileSync(compose, 'utf8').includes(`SVC_COMMAND: "SVC_DATA_DIR=${dirname(root)} svc"`))
    const other = site(t)
    await other.generate({ WEB_HOST: 'chat.example' })
    assert.match(other.files()['dashd.env'] ?? '', /^WEB_HOST='?chat\.example'?$/m)
  })

  test('gives egress-proxy a secret for its admin listener, which accepts it without a warning', async (t) => {
    const { root, compose, generate, files } = site(t)
    await generate()
    const config = files()['egress-admin.txt'] ?? ''
    const [, secret = ''] = /^secret = "([0-9a-f]{64})"$/m.exec(config) ?? []
    assert.ok(secret !== '' && !readFileSync(compose, 'utf8').includes(secret))
    const path = join(root, 'egress-proxy.toml')
    writeFileSync(path, config, { mode: 0o600 })
    const { environment } = parse(readFileSync(compose, 'utf8')).services['egress-proxy']
    const variables = sourceOf('the environment', new Map(Object.entries<string>(environment)))
    const { settings, warnings } = await readServeSettings({}, { config: path }, variables)
    assert.deepEqual([settings.secret, warnings], [secret, []])
  })

  test('probes the health of containers without starting Node', async (t) => {
    const { compose, generate } = site(t)
    await generate()
    const { services } = parse(readFileSync(compose, 'utf8'))
    for (const [name, { healthcheck }] of Object.entries<{ healthcheck: { test: string[] } }>(services))
      assert.deepEqual(healthcheck.test.slice(0, 2), ['CMD', 'curl'], name)
    const server = createServer((request, response) => {
      response.writeHead(request.url === '/health' ? status : 404).end()
    })
    let status = 200
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => void server.close())
    const { port } = z.object({ port: z.int() }).parse(server.address())
    const [, program = '', ...args]: string[] = services.webd.healthcheck.test
    const at = args.map((word) => word.replace(':8080/', `:${port}/`))
    const probe = (): Promise<number> =>
      promisify(execFile)(program, at).then(
        () => 0,
        ({ code }) => code,
      )
    assert.equal(await probe(), 0)
    status = 503
    assert.notEqual(await probe(), 0)
  })

  test('writes the same again, and after a change only the files that changed', async (t) => {
    const { root, compose, generate } = site(t)
    await generate()
    const [before, text] = [readdirSync(join(root, 'env')), readFileSync(compose, 'utf8')]
    const { isChanged } = await generate()
    assert.deepEqual([isChanged, readdirSync(join(root, 'env')), readFileSync(compose, 'utf8')], [false, before, text])
    await generate({ TURN_DEADLINE: '5m' })
    const added = readdirSync(join(root, 'env')).filter((name) => !before.includes(name))
    assert.deepEqual(
      added.map((name) => name.split('-')[0]).sort(),
      ['proxyd', 'runed'],
      'and the names of settings for routes',
    )
    assert.deepEqual(
      before.filter((name) => !existsSync(join(root, 'env', name))),
      [],
      'running containers keep their files',
    )
    await generate({ TURN_DEADLINE: '5m' })
    await generate({ TURN_DEADLINE: '5m' })
    assert.equal(readdirSync(join(root, 'env')).length, before.length, 'files of older ones are removed')
  })

  test('refuses a compose file that was edited by hand, unless it is forced', async (t) => {
    const { compose, generate, refusal } = site(t)
    await generate()
    const edited = readFileSync(compose, 'utf8').replace('unless-stopped', 'always')
    writeFileSync(compose, edited)
    assert.match(await refusal(), /docker-compose\.yml was edited by hand; nothing was changed\n.*--force/)
    assert.equal(readFileSync(compose, 'utf8'), edited)
    await generate({}, { isForced: true })
    assert.doesNotMatch(readFileSync(compose, 'utf8'), /"always"/)
  })

  const bad: Record<string, [Record<string, string>, RegExp]> = {
    'a bad value': [{ TURN_DEADLINE: 'soon' }, /TURN_DEADLINE in .*\.env must be/],
    'half a provider': [{ OIDC_X_ID: 'x' }, /OIDC_X_ISSUER is missing/],
    'port 0': [{ WEB_LISTEN: '127.0.0.1:0' }, /WEB_LISTEN has port 0, and a container needs a fixed one/],
    'a host name to listen on': [
      { WEB_LISTEN: 'chat.example.com:80' },
      /has the name chat\.example\.com, and a container needs an address/,
    ],
    'a database on this machine': [
      { DATABASE_URL: 'postgres://u:geheim@localhost/db' },
      /DATABASE_URL in .* names this machine/,
    ],
    'a subnet that is not private': [
      { CONTAINER_SUBNET: '8.8.8.0/22' },
      /CONTAINER_SUBNET in .* must be a private range/,
    ],
    'a subnet of another size': [{ CONTAINER_SUBNET: '10.1.1.0/24' }, /must be a private range of 1024 addresses/],
  }
  for (const [what, [entries, sentence]] of Object.entries(bad))
    test(`refuses ${what} and writes nothing`, async (t) => {
      const { root, refusal } = site(t)
      const message = await refusal(entries)
      assert.match(message, sentence)
      assert.doesNotMatch(message, /geheim/)
      assert.deepEqual(readdirSync(root), [])
    })

  test('refuses the data directory of another user, and names that user', async (t) => {
    const { root } = site(t)
    const owner = statSync(root).uid
    await assert.rejects(findContainerOwner(layout(root), owner + 1), (error) => {
      assert.ok(error instanceof Refusal)
      assert.match(
        `${error.message}\n${error.hint}`,
        new RegExp(`belongs to another user \\(uid ${owner}\\)\nrun the command as`),
      )
      return true
    })
  })

  test('gives what containers use to another user than root', needs('root'), async (t) => {
    const { root, compose, generate } = site(t)
    mkdirSync(join(root, 'store'))
    writeFileSync(join(root, 'store', 'svc.db'), '')
    assert.deepEqual((await generate()).newOwner, { uid: 60_000, gid: 60_000 })
    for (const name of ['store', 'store/svc.db', 'groups', 'ipc'])
      assert.equal(statSync(join(root, name)).uid, 60_000, name)
    assert.deepEqual([statSync(root).uid, statSync(compose).uid], [0, 0], 'only root decides what runs')
    assert.match(readFileSync(compose, 'utf8'), /user: "60000:60000"/)
    for (const name of readdirSync(join(root, 'env'))) assert.equal(statSync(join(root, 'env', name)).uid, 60_000)
    assert.equal((await generate()).newOwner, undefined)
  })

  test('warns about URLs of this machine, and about an engine that is missing', async (t) => {
    const { generate, warnings } = site(t)
    await generate({ OPENAI_BASE_URL: 'http://localhost:11434/v1', ENGINE_SOCKET: '/nowhere/engine.sock' })
    assert.match(warnings.join('\n'), /OPENAI_BASE_URL names this machine/)
    assert.match(warnings.join('\n'), /no socket of a container engine at \/nowhere\/engine\.sock/)
  })

  test('leaves a complete set behind, wherever the disk fills up', needs('root'), async (t) => {
    await onSmallDisk(tempDir(t), 'tmpfs', async (disk) => {
      const { root, compose, generate, refusal } = site(t, join(disk, 'svc_demo'))
      await generate()
      let failures = 0
      for (let left = 0; left <= 72 * 1024; left += 8 * 1024) {
        const before = readFileSync(compose, 'utf8')
        const ballast = fillUp(disk, left)
        const message = await refusal({ ASSISTANT_NAME: `name ${left}`, WEB_HOST: `host-${left}.example` })
        rmSync(ballast)
        const after = readFileSync(compose, 'utf8')
        if (message !== 'accepted') {
          failures++
          assert.match(message, /^cannot write .*: the disk is full\n$/)
          assert.equal(after, before)
        }
        for (const [, path = ''] of after.matchAll(/source: "([^"]+\.(?:env|json))"/g))
          assert.ok(statSync(path).size > 0, `${path} is complete`)
        assert.deepEqual(
          readdirSync(join(root, 'env')).filter((name) => name.startsWith('.')),
          [],
        )
      }
      assert.ok(failures > 1 && failures < 9, `${failures} of 10 attempts failed`)
    })
  })
})

suite('svc generate with packages', () => {
  const fragment = (site: Site, name: string, text: string): void => {
    const path = join(site.root, 'services', `${name}.yml`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  const GATEWAY = 'services: { gateway: { image: example/gateway:1 } }\nx-svc: { settings: [GATEWAY_KEY, OTHER_KEY] }\n'

  test('gives a service the settings that it names, and only those', async (t) => {
    const at = site(t)
    fragment(at, 'gateway', GATEWAY)
    const { services } = await at.generate({ GATEWAY_KEY: '$1 #x' })
    assert.ok(services.includes('gateway'))
    assert.equal(at.files()['gateway.env'], "GATEWAY_KEY='$1 #x'\n")
    assert.match(at.warnings.join('\n'), /services\/gateway\.yml uses the setting OTHER_KEY, which \.env does not have/)
    for (const value of ["it's", 'a\nb', 'a\\', `\${HOME}`])
      assert.match(
        await at.refusal({ GATEWAY_KEY: value }),
        /GATEWAY_KEY in \.env has a single quote, a backslash, a line break/,
      )
  })

  test('refuses packages that do not fit together, and writes nothing', async (t) => {
    const at = site(t)
    fragment(at, 'gateway', GATEWAY)
    fragment(at, 'other', GATEWAY)
    assert.match(await at.refusal(), /services\/gateway\.yml and services\/other\.yml both have a service gateway/)
    fragment(at, 'other', 'services: { b: { image: b, depends_on: [nothing] } }')
    assert.match(await at.refusal(), /b depends on nothing, which does not exist/)
    fragment(at, 'other', 'services: { b: { image: b, privileged: true } }')
    assert.match(await at.refusal(), /privileged is not allowed in a package/)
    fragment(at, 'other', 'services: { b: { image: b, volumes: ["./f:/f:ro"] } }')
    assert.match(await at.refusal(), /mounts \.\/f, but .*services\/other\/f does not exist/)
    mkdirSync(join(at.root, 'services', 'other'))
    symlinkSync('/etc/passwd', join(at.root, 'services', 'other', 'f'))
    assert.match(await at.refusal(), /is a link that leads out of the package/)
    assert.deepEqual(readdirSync(at.root), ['services'])
    rmSync(join(at.root, 'services', 'other', 'f'))
    writeFileSync(join(at.root, 'services', 'other', 'f'), '')
    chmodSync(join(at.root, 'services', 'other', 'f'), 0o644)
    await at.generate()
    fragment(at, 'Bad Name', 'services: { c: { image: c } }')
    assert.match(await at.refusal(), /must be named with lower-case letters/)
  })

  test('writes a file from which docker-compose 1.29 reads the same values', needs('compose'), async (t) => {
    const at = site(t, join(tempDir(t), 'a $HOME b', 'svc_demo'))
    fragment(
      at,
      'gateway',
      GATEWAY.replace('image:', () => 'command: [--price, 5$$], image:'),
    )
    const values = { GATEWAY_KEY: `$HOME $1 $$ #x "y" = z`, OTHER_KEY: 'plain' }
    await at.generate({ ...values, POSTGRES_PASSWORD: 'geheim' })
    const files = ['--env-file', join(at.root, 'env/compose.env'), '-p', 'svc_demo', '-f', at.compose]
    const { stdout } = await promisify(execFile)('docker-compose', [...files, 'config'])
    assert.doesNotMatch(stdout, /geheim|a key of the tests/)
    const { services } = parse(stdout)
    // It writes dollar signs as in a compose file.
    const unescaped = (text: string): string => text.replaceAll('$$', '$')
    assert.equal(
      unescaped(services.webd.volumes[0].source).replace(/webd-[0-9a-f]+/, 'webd'),
      join(at.root, 'env/webd.env'),
    )
    assert.equal(unescaped(services.gateway.environment.GATEWAY_KEY), values.GATEWAY_KEY)
    assert.equal(services.gateway.environment.OTHER_KEY, 'plain')
    assert.deepEqual(services.gateway.command.map(unescaped), ['--price', '5$'])
    assert.deepEqual(
      [services.proxyd.ports, services.routd.ports],
      [['127.0.0.1:8080:8080/tcp'], ['127.0.0.1:8081:8080/tcp']],
    )
    assert.deepEqual(services.webd.depends_on, { postgres: { condition: 'service_healthy' } })
  })
})
