// `svc run`, `svc status` and `svc pair` with a fake engine.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { parse } from 'yaml'
import { demoCli } from '../../../test/support/cli.ts'
import { fakeCompose } from '../../../test/support/fake-compose.ts'
import { freePort } from '../../../test/support/free-port.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { parseJson } from '../../lib/text/json.ts'

async function demo(t: CleanupScope) {
  const { root, dir } = await demoCli(t)
  const web = await freePort()
  const env = join(root, '.env')
  writeFileSync(env, readFileSync(env, 'utf8').replace(/^WEB_LISTEN=.*$/m, `WEB_LISTEN=127.0.0.1:${web}`))
  return { root, web, routd: web + 1, fake: fakeCompose(t, dir) }
}

const isUp = (call: readonly string[]): boolean => call.includes('up')

suite('svc run', () => {
  test('starts compose with its own project and files, passes SIGTERM on and keeps the exit code', async (t) => {
    const { root, fake } = await demo(t)
    const { child, ended } = fake.start(['run', 'demo'], { env: { LONG: 'yes' } })
    await until(() => fake.has('up'))
    child.kill('SIGTERM')
    const { code, stdout, stderr } = await ended
    assert.deepEqual([code, fake.read('signals')], [143, 'TERM\n'])
    assert.match(stdout, /docker-compose\.yml: 10 services\nlog of a container\n$/)
    assert.match(stderr, /starting 10 containers; Ctrl-C stops them/)
    const before = [
      '--env-file',
      join(root, 'env/compose.env'),
      '-p',
      'svc_demo',
      '-f',
      join(root, 'docker-compose.yml'),
    ]
    const [up, down] = fake.calls().filter((call) => isUp(call) || call.includes('down'))
    assert.deepEqual(up, ['docker-compose', ...before, 'up', '--remove-orphans'])
    assert.deepEqual(down, ['docker-compose', ...before, 'down', '--remove-orphans'], 'nothing is left behind')
  })

  test('passes SIGINT on, and prefers docker compose', async (t) => {
    const { fake } = await demo(t)
    const { child, ended } = fake.start(['run', 'demo'], { env: { LONG: 'yes', V2: 'yes' } })
    await until(() => fake.has('up'))
    child.kill('SIGINT')
    assert.deepEqual([(await ended).code, fake.read('signals')], [130, 'INT\n'])
    assert.ok(fake.calls().some(([program, first]) => program === 'docker' && first === 'compose'))
  })

  test('keeps the exit code of a failure, and the containers for their logs', async (t) => {
    const { fake } = await demo(t)
    assert.equal((await fake.run(['run', 'demo'], { env: { CODE: '17' } })).code, 17)
    assert.ok(!fake.calls().some((call) => call.includes('down')))
  })

  test('refuses, with a remedy, before it starts anything', async (t) => {
    const { root, web, fake } = await demo(t)
    const fails = async (sentence: RegExp, env: Record<string, string>): Promise<void> => {
      const { code, stderr } = await fake.run(['run', 'demo'], { env })
      assert.equal(code, 1)
      assert.match(stderr, sentence)
    }
    const denied = 'permission denied while trying to connect to the Docker daemon socket'
    await fails(/this user may not use the container engine: .*permission denied.*\nhint: sudo usermod -aG docker/, {
      DOCKER_FAIL: 'version*',
      REASON: denied,
    })
    await fails(/cannot be reached: .*Is the docker daemon running\?\nhint: sudo systemctl start docker/, {
      DOCKER_FAIL: 'version*',
      REASON: 'Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?',
    })
    await fails(/there is no image svc-host:\S+\nhint: build it .*docker build -t svc-host:/, {
      DOCKER_FAIL: 'image inspect*',
    })
    const onlyCompose = join(tempDir(t), 'bin')
    mkdirSync(onlyCompose)
    writeFileSync(join(onlyCompose, 'docker-compose'), '#!/bin/sh\n', { mode: 0o755 })
    await fails(
      /docker-compose is on the PATH, but docker, which it needs, is not\nhint: install it: apt install docker\.io/,
      {
        PATH: onlyCompose,
      },
    )
    const server = createServer().listen(web, '127.0.0.1')
    t.after(() => void server.close())
    await fails(
      /127\.0\.0\.1:\d+ is already in use, and proxyd needs it\nhint: stop .* or set another WEB_LISTEN in /,
      {},
    )
    fake.write('inspected', inspected('proxyd', '/elsewhere/svc_demo/docker-compose.yml'))
    await fails(
      /another instance named demo exist, made from \/elsewhere\/svc_demo\/docker-compose\.yml\nhint: stop/,
      {},
    )
    fake.write('inspected', inspected('proxyd', join(root, 'docker-compose.yml')))
    assert.equal((await fake.run(['run', 'demo'])).code, 0, 'its own container has the port')
    writeFileSync(join(root, '.env'), 'BROKEN')
    await fails(/\.env line 1 must look like KEY=value/, {})
    assert.equal(fake.calls().filter(isUp).length, 1)
  })
})

const inspected = (service: string, file?: string): string =>
  JSON.stringify([
    {
      State: { Status: 'running', Health: { Status: 'healthy' } },
      Config: {
        Labels: {
          'com.docker.compose.project': 'svc_demo',
          'com.docker.compose.service': service,
          ...(file === undefined ? {} : { 'com.docker.compose.project.config_files': file }),
        },
      },
      HostConfig: { PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: '8081' }] } },
    },
    {
      State: { Status: 'running' },
      Config: { Labels: { 'com.docker.compose.service': service, 'com.docker.compose.oneoff': 'True' } },
      HostConfig: { PortBindings: null },
    },
  ])

suite('svc generate', () => {
  test('adds a PostgreSQL service, and leaves .env as it was if the rest fails', async (t) => {
    const cli = await demoCli(t)
    const [env, compose] = [join(cli.root, '.env'), join(cli.root, 'docker-compose.yml')]
    const before = readFileSync(env, 'utf8')
    writeFileSync(compose, 'services: {}\n')
    const { code, stderr } = await cli.run('generate demo --postgres')
    assert.equal(code, 1)
    assert.match(stderr, /was edited by hand; nothing was changed/)
    assert.equal(readFileSync(env, 'utf8'), before)
    assert.match(await cli.ok('generate demo --postgres --force'), /docker-compose\.yml: 11 services\n$/)
    const password = /^POSTGRES_PASSWORD=(.+)$/m.exec(readFileSync(env, 'utf8'))?.[1] ?? 'none'
    assert.equal(statSync(env).mode & 0o777, 0o600)
    assert.ok(!readFileSync(compose, 'utf8').includes(password))
    assert.match(await cli.ok('generate demo'), /docker-compose\.yml: unchanged\n$/, 'it is remembered')
  })
})

suite('svc status', () => {
  test('needs the compose file', async (t) => {
    const cli = await demoCli(t)
    const { code, stdout, stderr } = await cli.run('status demo')
    assert.deepEqual([code, stdout], [1, ''])
    assert.equal(
      stderr,
      `svc: there is no compose file at ${cli.root}/docker-compose.yml\nhint: run svc generate demo first\n`,
    )
  })

  test('lists services and channels, and says if the router is unreachable, empty or refuses', async (t) => {
    const { fake, root, routd } = await demo(t)
    const secret = /^CHANNEL_SECRET=(.*)$/m.exec(readFileSync(join(root, '.env'), 'utf8'))?.[1]
    assert.equal((await fake.run(['generate', 'demo'])).code, 0)
    fake.write('inspected', inspected('routd'))
    const away = await fake.run(['status', 'demo'])
    assert.deepEqual(
      [away.code, away.stdout.split('\n').slice(0, 3)],
      [0, ['SERVICE\tSTATE\tHEALTH\tPORTS', 'proxyd\tnot created\t-\t-', 'routd\trunning\thealthy\t127.0.0.1:8081']],
    )
    assert.match(away.stderr, /the router cannot be reached at http:\/\/127\.0\.0\.1:\d+\/v1\/channels: ECONNREFUSED/)

    const channels = [{ name: 'telegram', url: 'http://telegram:9000', jid_prefixes: ['telegram:'] }]
    let answer: [number, unknown] = [200, { ok: true, channels }]
    const asked: (string | undefined)[] = []
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url} ${request.headers.authorization}`)
      response.writeHead(answer[0]).end(JSON.stringify(answer[1]))
    }).listen(routd, '127.0.0.1')
    t.after(() => void server.close())
    const full = await fake.run(['status', 'demo'])
    assert.equal(full.code, 0)
    assert.match(full.stdout, /\n\nCHANNEL\tURL\ntelegram\thttp:\/\/telegram:9000\n$/)
    assert.deepEqual(asked, [`GET /v1/channels Bearer ${secret}`])
    const json = parseJson((await fake.run(['status', 'demo', '--json'])).stdout)
    assert.ok(typeof json === 'object' && json && 'routd' in json)
    assert.deepEqual(json.routd, {
      url: `http://127.0.0.1:${routd}/v1/channels`,
      channels: [{ name: 'telegram', url: 'http://telegram:9000' }],
    })

    answer = [200, { ok: true, channels: [] }]
    const empty = await fake.run(['status', 'demo'])
    assert.deepEqual([empty.code, empty.stderr], [0, 'no channels are registered\n'])
    answer = [401, { title: 'Unauthorized' }]
    const refused = await fake.run(['status', 'demo'])
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /did not list its channels: it does not accept CHANNEL_SECRET of \.env/)
    answer = [500, {}]
    assert.match((await fake.run(['status', 'demo'])).stderr, /it answered with status 500/)
    const unknown = await fake.run(['status', 'demo'], { env: { DOCKER_FAIL: 'ps*', REASON: 'permission denied' } })
    assert.match(unknown.stderr, /warning: the containers are unknown: docker ps failed: permission denied/)
  })
})

suite('svc pair', () => {
  test('passes input and arguments on, keeps the exit code and removes the container', async (t) => {
    const { fake } = await demo(t)
    assert.equal((await fake.run(['generate', 'demo'])).code, 0)
    const { code, stdout } = await fake.run(['pair', 'demo', 'webd', '--phone', '1', '-v', '--', 'x'], {
      input: 'typed\n',
      env: { CODE: '7' },
    })
    assert.deepEqual([code, stdout], [7, 'typed\n'])
    const call = fake.calls().find((each) => each.includes('run'))
    assert.deepEqual(call?.slice(-9), ['run', '--rm', '-T', 'webd', '--phone', '1', '-v', '--', 'x'])
    assert.ok(!call?.some((word) => word.endsWith('pair.yml')), 'webd has no fixed address')
    assert.equal((await fake.run(['pair', 'demo', 'proxyd'])).code, 0)
    const { networks } = parse(fake.read('pair.yml')).services.proxyd
    assert.match(networks.internal.ipv4_address, /\.251$/)
    const wrong = await fake.run(['pair', 'demo', 'telegarm'])
    assert.deepEqual([wrong.code, wrong.stdout], [1, ''])
    assert.match(wrong.stderr, /there is no service "telegarm"\nhint: the services are proxyd, /)
  })
})
