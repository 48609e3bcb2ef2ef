// The whole stack with a real container engine: the README's commands for a server, the rights of each container, kills, and the
// end, which leaves nothing behind.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, suite, test } from 'node:test'
import { DAEMON_NAMES } from '../../src/daemons/settings.ts'
import { formatDotenv, parseDotenv } from '../../src/lib/text/dotenv.ts'
import { packageVersion } from '../../src/lib/version.ts'
import { type ContainerEngine, openContainerEngine } from '../support/container-engine.ts'
import { EVERY_COMMAND_HINT, EVERY_COMMAND_RAN, everyCommandScript } from '../support/every-command.ts'
import { writeFakeCompose } from '../support/fake-compose.ts'
import { commandsOf, sectionOf } from '../support/guide.ts'
import { needs } from '../support/needs.ts'
import { packageDir } from '../support/package-files.ts'
import { buildSvcImage, SVC_IMAGE } from '../support/svc-image.ts'
import { TELEGRAM_TOKEN } from '../support/telegram-server.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')
const COMMANDS = commandsOf(sectionOf(README, '### In containers'))
const GUIDE = readFileSync(join(ROOT, 'docs', 'containers.md'), 'utf8')
const SERVICES = [...DAEMON_NAMES, 'egress-proxy', 'gate']
const STRANGER = 65534
/** Answers with a file of the package and a setting of the instance. Its program comes from the image that is there. */
const GATE = `require('http').createServer((_, response) => {
  response.end(JSON.stringify([require('fs').readFileSync('/etc/gate/greeting', 'utf8'), process.env.GATE_KEY]))
}).listen(4000)`
/** An agent that says who it is, what its workspace contains, and what a host that nothing allows and a daemon answer. */
const AGENT = [
  'touch kept; id -u; ls; ls /data /var/run/docker.sock 2>/dev/null; curl -s http://unlisted.example/',
  'curl -s http://routd:8080/health; curl -s --noproxy "*" http://routd:8080/health; true',
].join('; ')
/** Where containers reach the network of the engine, and in it a server in place of Telegram. */
const SUBNET = '10.77.0.0/22'
const TELEGRAM_API_URL = 'http://10.77.3.1:8095'
const PACKAGE = {
  'package.toml': `name = "gate"
about = "A service for this test."
[[proxyd_routes]]
path = "/gate/"
backend = "http://gate:4000"
auth = "public"
`,
  'services.yml': JSON.stringify({
    services: {
      gate: {
        image: SVC_IMAGE,
        entrypoint: ['node', '-e', GATE],
        volumes: ['./greeting:/etc/gate/greeting:ro'],
        user: '65534:65534',
        read_only: true,
        healthcheck: {
          test: ['CMD', 'node', '-e', 'fetch("http://127.0.0.1:4000").then(() => {}, () => process.exit(1))'],
          interval: '2s',
        },
      },
    },
    'x-svc': { settings: ['GATE_KEY'] },
  }),
  'files/greeting': 'hello',
}

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

interface Inspected {
  readonly Id: string
  readonly RestartCount: number
  readonly State: { readonly Pid: number; readonly Health?: { readonly Status: string } }
  readonly Config: { readonly User: string; readonly Labels: Readonly<Record<string, string>> }
  readonly HostConfig: {
    readonly ReadonlyRootfs: boolean
    readonly Privileged: boolean
    readonly CapAdd: readonly string[] | null
    readonly CapDrop: readonly string[] | null
    readonly SecurityOpt: readonly string[] | null
    readonly PortBindings: Readonly<Record<string, readonly { readonly HostIp: string }[]>> | null
  }
  readonly Mounts: readonly { readonly Source: string }[]
}

suite('svc in containers', needs('root', 'engine', 'compose', 'mmdebstrap', 'npm', 'curl', 'open checkout'), () => {
  let engine: ContainerEngine
  let stack: ChildProcess | undefined
  let telegram: ChildProcess | undefined
  // Registered first, so that the engine stops before its folder is deleted.
  after(async () => {
    stack?.kill('SIGKILL')
    telegram?.kill('SIGKILL')
    await engine?.stop()
  })
  const folder = tempDir({ after })
  const programs = join(folder, 'programs')
  const data = join(folder, 'data')

  before(async () => {
    // With the data of the engine that built the image, so that the README's build needs no network.
    const { dataRoot } = await buildSvcImage()
    engine = await openContainerEngine(folder, [], { dataRoot })
    for (const path of [programs, data]) mkdirSync(path)
    writeFileSync(join(programs, 'svc'), `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'bin', 'svc.js')} "$@"\n`)
    chmodSync(join(programs, 'svc'), 0o755)
  })

  /** In the network of the engine, where its ports are published. */
  const spawnInside = (command: readonly string[], settings: Readonly<Record<string, string>> = {}): ChildProcess => {
    const [program = '', ...args] = engine.inside(command)
    return spawn(program, args, {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        ...engine.environment,
        PATH: [programs, process.env.PATH].join(delimiter),
        HOME: folder,
        SVC_DATA_DIR: data,
        DOCKER_BUILDKIT: '0',
        ...settings,
      },
    })
  }
  const end = async (child: ChildProcess): Promise<Ended> => {
    const { stdout, stderr } = child
    if (!stdout || !stderr) return assert.fail('the process has no pipes')
    const [[code], out, err] = await Promise.all([once(child, 'exit'), text(stdout), text(stderr)])
    return { code, stdout: out, stderr: err }
  }
  const svc = (...args: string[]): Promise<Ended> => end(spawnInside(['svc', ...args]))
  const shell = async (line: string): Promise<string> => {
    const { code, stdout, stderr } = await end(spawnInside(['bash', '-c', line]))
    assert.equal(code, 0, `${line}\n${stdout}\n${stderr}`)
    return stdout
  }
  const curl = (...args: string[]): Promise<Ended> => end(spawnInside(['curl', '--silent', '--fail', ...args]))
  const inspect = async (): Promise<Map<string, Inspected>> => {
    const ids = (await engine.docker('ps', '--all', '--quiet')).split('\n').filter(Boolean)
    if (ids.length === 0) return new Map()
    const found: Inspected[] = JSON.parse(await engine.docker('inspect', ...ids))
    return new Map(found.map((each) => [each.Config.Labels['com.docker.compose.service'] ?? each.Id, each]))
  }
  const isHealthy = async (): Promise<boolean> => {
    const found = await inspect()
    return SERVICES.every((service) => found.get(service)?.State.Health?.Status === 'healthy')
  }
  const isServed = async (): Promise<boolean> => {
    const { code } = await curl('http://127.0.0.1:8080/health')
    return code === 0
  }

  suite('has an image', () => {
    /** As hardened as a service. */
    const inImage = (script: string, ...options: string[]): Promise<string> =>
      engine.docker(
        ...['run', '--rm', '--network', 'none', '--read-only', '--cap-drop', 'ALL', ...options],
        ...['--entrypoint', 'sh', SVC_IMAGE, '-c', script],
      )

    test('that runs as an ordinary user and has both commands and the programs of cells', async () => {
      const printed = await inImage(
        'id -u; svc version | head -1; egress-proxy --version; node --version; for each in perl curl bwrap; do command -v $each; done',
      )
      const version = packageVersion()
      assert.deepEqual(printed.split('\n'), [
        ...['60000', `svc ${version}`, `egress-proxy ${version}`, process.version],
        ...['/usr/bin/perl', '/usr/bin/curl', '/usr/bin/bwrap'],
      ])
    })

    test('without setuid programs, sources or development packages', async () => {
      // As root, who may enter all directories.
      assert.equal(await inImage('find / -xdev -perm /6000 -type f', '--user=0:0', '--cap-add=DAC_READ_SEARCH'), '')
      assert.equal(await inImage('find /opt/svc -name "*.ts"'), '')
      assert.equal(
        await inImage('cd /opt/svc/node_modules && ls -d typescript @biomejs fast-check 2>/dev/null || true'),
        '',
      )
    })

    test('in which every command of svc help runs', async () => {
      const fakes = join(folder, 'fakes')
      writeFakeCompose(fakes)
      writeFileSync(join(fakes, 'commands.sh'), everyCommandScript(await inImage('svc help')))
      // This container may not create cells; with compose, agents get containers of their own.
      const settings = { SANDBOX: 'none', FAKE: '/tmp', PATH: '/fakes:/usr/local/bin:/usr/bin:/bin' }
      const printed = await inImage(
        'cd /tmp && sh /fakes/commands.sh || true',
        ...Object.entries(settings).map(([name, value]) => `--env=${name}=${value}`),
        ...[`--volume=${fakes}:/fakes:ro`, '--tmpfs=/data:uid=60000,mode=700', '--tmpfs=/tmp'],
      )
      assert.equal(printed, EVERY_COMMAND_RAN, `${printed}\n${EVERY_COMMAND_HINT}`)
    })

    test('of at most 250 MB', async () => {
      const size = Number(await engine.docker('image', 'inspect', '--format', '{{.Size}}', SVC_IMAGE))
      assert.ok(size < 250e6, `${size}`)
    })
  })

  suite('refuses to start', () => {
    const refused = async (ended: Promise<Ended>, problem: RegExp, remedy: RegExp): Promise<void> => {
      const { code, stderr } = await ended
      assert.equal(code, 1, stderr)
      assert.match(stderr, problem)
      assert.match(stderr, remedy)
      assert.equal(await engine.docker('ps', '--all', '--quiet'), '')
    }
    const create = async (instance: string, settings = ''): Promise<void> => {
      await shell(`svc create ${instance} > /dev/null`)
      appendFileSync(join(data, `svc_${instance}`, '.env'), settings)
    }

    test('without its image, and says how to build it', async () => {
      await create('unbuilt', 'SVC_IMAGE=svc-host:missing\n')
      await refused(svc('run', 'unbuilt'), /there is no image svc-host:missing/, /build/)
    })

    test('if another program has its port, and names the setting', async () => {
      await create('busy')
      const script = `require('net').createServer().listen(8080, '127.0.0.1', () => console.log('up'))`
      const other = spawnInside([process.execPath, '-e', script])
      try {
        if (other.stdout) await once(other.stdout, 'data')
        await refused(svc('run', 'busy'), /127\.0\.0\.1:8080 is already in use/, /WEB_LISTEN/)
      } finally {
        other.kill('SIGKILL')
        await once(other, 'exit')
      }
    })

    test('for a user who may not use the engine', async () => {
      const own = join(folder, 'own')
      mkdirSync(own)
      chownSync(own, STRANGER, STRANGER)
      const asStranger = (...args: string[]): Promise<Ended> =>
        end(
          spawnInside(['setpriv', `--reuid=${STRANGER}`, `--regid=${STRANGER}`, '--clear-groups', 'svc', ...args], {
            SVC_DATA_DIR: own,
            HOME: own,
          }),
        )
      assert.equal((await asStranger('create', 'demo')).code, 0)
      await refused(asStranger('run', 'demo'), /may not use the container engine/, /usermod/)
    })
  })

  suite('runs the commands of the README', () => {
    let printed = ''
    let link = ''
    before(async () => {
      for (const command of COMMANDS) {
        if (!/^svc run /.test(command)) {
          printed += await shell(command)
          continue
        }
        const settings = {
          GATE_KEY: 'a key of the gate',
          AGENT_COMMAND: AGENT,
          CONTAINER_SUBNET: SUBNET,
          TELEGRAM_API_URL,
        }
        appendFileSync(join(data, 'svc_acme', '.env'), formatDotenv(new Map(Object.entries(settings))))
        await shell(`svc packages acme install ${packageDir({ after }, PACKAGE)} --yes > /dev/null`)
        stack = spawnInside(['bash', '-c', `exec ${command}`])
        let log = ''
        for (const output of [stack.stdout, stack.stderr])
          output?.setEncoding('utf8').on('data', (chunk: string) => {
            log = (log + chunk).slice(-20_000)
          })
        await until(async () => {
          assert.equal(stack?.exitCode, null, log)
          return isServed()
        })
      }
      link = /^url: (\S+)$/m.exec(printed)?.[1] ?? assert.fail(printed)
    })

    const post = async (content: string): Promise<string | undefined> => {
      const { code, stdout } = await curl('--data-urlencode', `content=${content}`, link)
      return code === 0 ? JSON.parse(stdout).turn_id : undefined
    }
    const isAnswered = async (turn: string): Promise<boolean> => {
      const { code, stdout } = await curl(`${link}${turn}`)
      if (code !== 0) return false
      const { status } = JSON.parse(stdout)
      if (status === 'pending') return false
      assert.equal(status, 'success', stdout)
      return true
    }

    test('which name the image of this version', () => {
      assert.equal(SVC_IMAGE, `svc-host:${packageVersion()}`)
      assert.ok(COMMANDS.some((command) => command.includes(`-t ${SVC_IMAGE} `)))
    })

    test('and those of the guide to containers, which starts it in the same way', async () => {
      const plain = (command: string): string => command.replace(/ +# .*/, '')
      const [block = ''] = /(?<=^```text\n)docker build .*?(?=^```)/ms.exec(GUIDE) ?? []
      const commands = block.trim().split('\n').map(plain)
      assert.equal(commands.length, 3)
      assert.deepEqual(
        commands.filter((command) => !COMMANDS.map(plain).includes(command)),
        [],
      )
      for (const command of commandsOf(GUIDE)) await shell(command.replace(' demo', ' acme'))
    })

    test('and a chat link answers through the front door', async () => {
      const turn = await post('What is new?')
      assert.ok(turn)
      await until(() => isAnswered(turn))
      const { stdout } = await curl(`${link}${turn}`)
      assert.ok(JSON.parse(stdout).frames.length > 0)
    })

    test('and the service of a package answers through the front door', async () => {
      await until(async () => (await curl('http://127.0.0.1:8080/gate/')).code === 0)
      const { stdout } = await curl('http://127.0.0.1:8080/gate/')
      assert.deepEqual(JSON.parse(stdout), ['hello', 'a key of the gate'])
    })

    test('and svc status lists every service and the channels', async () => {
      await until(isHealthy)
      const { code, stdout, stderr } = await svc('status', 'acme', '--json')
      assert.equal(code, 0, stderr)
      const { services, routd }: { services: { service: string; state: string; health: string }[]; routd: object } =
        JSON.parse(stdout)
      assert.deepEqual(
        services.map(({ service, state, health }) => ({ service, state, health })).toSorted(byService),
        SERVICES.map((service) => ({ service, state: 'running', health: 'healthy' })).toSorted(byService),
      )
      assert.ok('channels' in routd, stdout)
    })

    test("and the image's own health check tells a daemon that answers from one that does not", async () => {
      const [image]: { Config: { Healthcheck: { Test: string[] } } }[] = JSON.parse(
        await engine.docker('image', 'inspect', SVC_IMAGE),
      )
      const [kind, ...command] = image?.Config.Healthcheck.Test ?? []
      assert.equal(kind, 'CMD')
      const found = await inspect()
      const check = (service: string): Promise<string> =>
        engine.docker('exec', found.get(service)?.Id ?? '', ...command)
      await check('proxyd')
      await assert.rejects(check('egress-proxy'))
    })

    test('and svc logs prints the lines of all daemons or of one', async () => {
      const { code, stdout, stderr } = await svc('logs', 'acme', 'webd', '--json')
      assert.equal(code, 0, stderr)
      const entries = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      assert.ok(
        entries.some(({ daemon, method }) => daemon === 'webd' && method === 'POST'),
        stdout,
      )
      assert.ok(!entries.some(({ daemon }) => daemon === 'proxyd'))
      assert.match((await svc('logs', 'acme')).stdout, /"daemon":"runed"/)
    })

    test('and no container has rights or a writable root', async () => {
      for (const [service, { Config, HostConfig, State }] of await inspect()) {
        assert.match(Config.User, /^[1-9]\d*:[1-9]\d*$/, service)
        assert.equal(HostConfig.ReadonlyRootfs, true, service)
        assert.equal(HostConfig.Privileged, false, service)
        assert.deepEqual([HostConfig.CapAdd, HostConfig.CapDrop], [null, ['ALL']], service)
        assert.ok(HostConfig.SecurityOpt?.includes('no-new-privileges:true'), service)
        const status = readFileSync(`/proc/${State.Pid}/status`, 'utf8')
        assert.match(status, /^CapEff:\t0{16}$/m, service)
        assert.match(status, /^CapBnd:\t0{16}$/m, service)
        assert.match(status, /^NoNewPrivs:\t1$/m, service)
        assert.doesNotMatch(status, /^[UG]id:.*\t0\b/m, service)
      }
    })

    test('and only the front door and the router are published, on this machine', async () => {
      const found = await inspect()
      const published = [...found].filter(([, { HostConfig }]) => Object.keys(HostConfig.PortBindings ?? {}).length > 0)
      assert.deepEqual(published.map(([service]) => service).toSorted(), ['proxyd', 'routd'])
      for (const [service, { HostConfig }] of published)
        for (const { HostIp } of Object.values(HostConfig.PortBindings ?? {}).flat())
          assert.equal(HostIp, '127.0.0.1', service)
    })

    test('and only runed has the socket of the engine', async () => {
      const found = await inspect()
      const holders = [...found].filter(([, { Mounts }]) => Mounts.some(({ Source }) => Source.endsWith('docker.sock')))
      assert.deepEqual(
        holders.map(([service]) => service),
        ['runed'],
      )
    })

    test('and no secret shows in the compose file or to users of the engine', async () => {
      const root = join(data, 'svc_acme')
      const values = parseDotenv(readFileSync(join(root, '.env'), 'utf8'), '.env')
      const ids = [...(await inspect()).values()].map(({ Id }) => Id)
      const shown = `${await engine.docker('inspect', ...ids)}${readFileSync(join(root, 'docker-compose.yml'), 'utf8')}`
      for (const name of ['CHANNEL_SECRET', 'SECRETS_KEY']) {
        const secret = values.get(name)
        assert.ok(secret, name)
        assert.ok(!shown.includes(secret), name)
      }
    })

    test('and an agent runs in a container of its own, whose only way out is the proxy', async () => {
      await shell('svc group acme add sandbox:lobby team && svc group acme set team runtime command')
      const [, own = ''] = /^url: (\S+)$/m.exec(await shell('svc token acme issue chat team --tools all')) ?? []
      const { stdout } = await curl('--data-urlencode', 'content=Who are you?', own)
      const turn: string = JSON.parse(stdout).turn_id
      await until(async () => JSON.parse((await curl(`${own}${turn}`)).stdout).status !== 'pending')
      const { status, frames } = JSON.parse((await curl(`${own}${turn}`)).stdout)
      assert.equal(status, 'success', JSON.stringify(frames))
      const answer = frames.map(({ content }: { content: string }) => content).join('\n')
      assert.match(answer, /^60000$/m)
      assert.match(answer, /^kept$/m)
      assert.match(answer, /unlisted\.example/)
      assert.doesNotMatch(answer, /svc_acme|docker\.sock|"daemon"/)
      assert.match((await svc('network', 'acme', 'denied', 'team')).stdout, /unlisted\.example/)
      const agents = [...(await inspect()).values()].filter(({ Config }) => Config.Labels['svc.folder'] === 'team')
      assert.equal(agents.length, 1)
      assert.equal(
        await engine.docker('inspect', '--format', '{{.HostConfig.NetworkMode}}', agents[0]?.Id ?? ''),
        'none',
      )
    })

    test('and a bot of Telegram answers, also after a kill of routd, whose container has its adapter', async () => {
      telegram = spawnInside([process.execPath, join(ROOT, 'test', 'support', 'telegram-program.ts'), '0.0.0.0'])
      const ask = async (path: string): Promise<string> => (await curl(`http://127.0.0.1:8095${path}`)).stdout
      await until(async () => (await ask('/sent')) === '[]')
      await shell(`echo ${TELEGRAM_TOKEN} | svc channel acme add telegram --token -`)
      await shell('svc group acme add telegram:user/42 bots')
      const countOf = async (word: string): Promise<number> => (await ask('/sent')).split(`> ${word}\\n`).length - 1
      await ask('/say?one')
      await until(async () => (await countOf('one')) === 1)
      const first = await inspect()
      const urls = JSON.stringify(JSON.parse(await shell('svc channel acme list --json'))).match(/http:\/\/routd:\d+/g)
      assert.equal(urls?.length, 1)
      const status = ['curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', `${urls?.[0]}/health`]
      assert.equal(await engine.docker('exec', first.get('gated')?.Id ?? '', ...status), '401')
      process.kill(first.get('routd')?.State.Pid ?? assert.fail(), 'SIGKILL')
      await ask('/say?two')
      await until(async () => (await countOf('two')) === 1)
      assert.deepEqual([await countOf('one'), await countOf('two')], [1, 1])
      assert.equal((await inspect()).get('routd')?.RestartCount, 1)
    })

    test('and kills of webd and runed lose no acknowledged message', async () => {
      const victims = ['webd', 'runed']
      const first = await inspect()
      const acknowledged: string[] = []
      for (let sent = 0; sent < 12; sent++) {
        // As the kernel kills: `docker kill` would count as a wish of the operator.
        const victim = first.get(victims[sent / 4 - 1] ?? '')
        if (victim) process.kill(victim.State.Pid, 'SIGKILL')
        await until(async () => {
          const turn = await post(`message ${sent}`)
          if (turn) acknowledged.push(turn)
          return turn !== undefined
        })
      }
      for (const turn of acknowledged) await until(() => isAnswered(turn))
      const last = await inspect()
      for (const service of victims) assert.equal(last.get(service)?.RestartCount, 1, service)
    })

    test('and Ctrl-C leaves no container, network or volume behind', async () => {
      if (!stack) return assert.fail('it was not started')
      const ended = once(stack, 'exit')
      stack.kill('SIGINT')
      const [code, signal] = await ended
      assert.deepEqual([code, signal], [0, null])
      assert.equal(await engine.docker('ps', '--all', '--quiet'), '')
      const networks = await engine.docker('network', 'ls', '--format', '{{.Name}}')
      assert.deepEqual(networks.split('\n').toSorted(), ['bridge', 'host', 'none'])
      assert.equal(await engine.docker('volume', 'ls', '--quiet'), '')
    })
  })
})

const byService = (one: { service: string }, other: { service: string }): number =>
  one.service < other.service ? -1 : 1
