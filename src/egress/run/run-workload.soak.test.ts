import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, type TestContext, test } from 'node:test'
import { type FakeDocker, type FakeRun, fakeDocker } from '../../../test/support/fake-docker.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { makeTag } from '../container/run-tag.ts'

const ALLOW = ['--allow', 'example.com,pypi.org']

/** A call in short: its words and its component. */
function brief(call: readonly string[]): string {
  const name = call[0] === 'create' ? call[2] : call.findLast((arg) => arg.startsWith('egress-proxy-'))
  const part = /-(net|holder|proxy|workload)(?::\/.*)?$/.exec(name ?? '')?.[1]
  const words = call.slice(0, call[0] === 'network' || call[1] === 'inspect' ? 2 : 1)
  return [...words, ...(part ? [part] : [])].join(' ')
}

function find(docker: FakeDocker, words: string): string[] {
  return docker.calls().find((call) => brief(call) === words) ?? assert.fail(`there was no ${words}`)
}

/** The values of a repeatable flag. */
function valuesOf(call: readonly string[], flag: string): string[] {
  return call.flatMap((arg, at) => (call[at - 1] === flag ? [arg] : []))
}

async function isAt(docker: FakeDocker, words: string): Promise<void> {
  await until(() => docker.calls().some((call) => brief(call) === words))
}

function killed({ child }: FakeRun, signal: NodeJS.Signals): void {
  assert.ok(child.kill(signal))
}

suite('engine calls of egress-proxy run', () => {
  const docker = fakeDocker({ after })
  before(async () => {
    const { code, stderr } = await docker.run([...ALLOW, '--', 'true']).ended
    assert.deepEqual({ code, stderr }, { code: 0, stderr: 'its complaint\n' })
  })

  test('creates the parts in the confining order and removes them in reverse', () => {
    const made = docker.calls().map(brief)
    assert.deepEqual(made.slice(made.indexOf('network create net')), [
      'network create net',
      'network inspect net',
      'create workload',
      'container inspect workload',
      'container inspect workload',
      'cp workload',
      'create proxy',
      'network connect proxy',
      'cp proxy',
      'start proxy',
      'start workload',
      'container inspect workload',
      'rm proxy',
      'rm workload',
      'network rm net',
    ])
    assert.deepEqual(docker.left(), [])
  })

  test('makes the network internal, without the host and the admin listener', () => {
    const network = find(docker, 'network create net')
    assert.ok(network.includes('--internal'))
    assert.deepEqual(valuesOf(network, '--opt'), ['com.docker.network.bridge.inhibit_ipv4=true'])
    assert.deepEqual(valuesOf(network, '--subnet'), ['10.88.0.0/28'])
    const proxy = find(docker, 'create proxy')
    assert.deepEqual(valuesOf(proxy, '--network'), ['bridge'])
    assert.deepEqual(valuesOf(proxy, '--listen'), ['10.88.0.2:3128'])
    assert.deepEqual(valuesOf(proxy, '--admin'), ['127.0.0.1:3129'])
    assert.deepEqual(valuesOf(proxy, '--transparent'), [''])
    assert.deepEqual(valuesOf(proxy, '--cap-drop'), ['ALL'])
    assert.deepEqual(find(docker, 'network connect proxy').slice(2, 4), ['--ip', '10.88.0.2'])
  })

  test('puts the workload on the private network only, without raw packets, routes or IPv6', () => {
    const workload = find(docker, 'create workload')
    assert.equal(valuesOf(workload, '--network').length, 1)
    assert.ok(!docker.calls().some((call) => brief(call) === 'create holder'), 'this docker adds no default route')
    assert.match(valuesOf(workload, '--network')[0] ?? '', /^egress-proxy-.*-net$/)
    assert.deepEqual(valuesOf(workload, '--ip'), ['10.88.0.3'])
    assert.deepEqual(valuesOf(workload, '--cap-drop'), ['NET_RAW', 'NET_ADMIN', 'MKNOD'])
    const [privileges, seccomp, ...others] = valuesOf(workload, '--security-opt')
    assert.deepEqual([privileges, others], ['no-new-privileges', []])
    assert.match(seccomp ?? '', /^seccomp=\/.*\/seccomp\.json$/)
    assert.ok(!existsSync(seccomp?.slice('seccomp='.length) ?? ''), 'the file is gone when the container is made')
    assert.deepEqual(valuesOf(workload, '--dns'), ['10.88.0.2'])
    assert.ok(valuesOf(workload, '--sysctl').includes('net.ipv6.conf.all.disable_ipv6=1'))
    assert.deepEqual(valuesOf(workload, '--volume'), [])
  })

  test('starts the workload from an init process, without the hosts file of this machine', () => {
    const workload = find(docker, 'create workload')
    assert.ok(workload.includes('--init'))
    assert.ok(!workload.includes('--no-hosts'), 'docker creates its own hosts file')
    assert.ok(!find(docker, 'create proxy').includes('--init'), 'the proxy handles signals itself')
  })

  test('sets every proxy variable in both spellings', () => {
    const variables = new Map(valuesOf(find(docker, 'create workload'), '--env').map((line) => cut(line)))
    for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'FTP_PROXY']) {
      assert.equal(variables.get(name), 'http://10.88.0.2:3128')
      assert.equal(variables.get(name.toLowerCase()), 'http://10.88.0.2:3128')
    }
    assert.equal(variables.get('NO_PROXY'), 'localhost,127.0.0.1,::1')
    assert.equal(variables.get('no_proxy'), 'localhost,127.0.0.1,::1')
    assert.equal(variables.get('NODE_USE_ENV_PROXY'), '1')
    for (const name of ['npm_config_proxy', 'npm_config_https_proxy', 'YARN_HTTPS_PROXY', 'PIP_PROXY'])
      assert.equal(variables.get(name), 'http://10.88.0.2:3128')
  })
})

suite('egress-proxy run', { concurrency: 3 }, () => {
  test('passes the only entry and a secret of 256 bits in a file, never as arguments', async (t) => {
    const docker = fakeDocker(t)
    await docker.run([...ALLOW, '--id', 'build 7', '--deny-private', '--', 'true']).ended
    const seed = docker.read('seed').toString('latin1')
    const secret = /secret = "([0-9a-f]{64})"/.exec(seed)?.[1] ?? assert.fail('there is no secret')
    assert.ok(seed.includes('{"ip":"10.88.0.3","id":"build 7","allowlist":["example.com","pypi.org"]}'))
    assert.match(seed, /deny_private = true/)
    assert.ok(
      !docker
        .calls()
        .flat()
        .some((arg) => arg.includes(secret)),
    )
    await docker.run([...ALLOW, '--', 'true']).ended
    assert.ok(!docker.read('seed').includes(secret), 'each run has its own secret')
  })

  test('registers an empty list as an entry that allows nothing', async (t) => {
    const docker = fakeDocker(t)
    assert.equal((await docker.run(['--allow', '', '--', 'true']).ended).code, 0)
    assert.match(docker.read('seed').toString('latin1'), /"allowlist":\[\]/)
  })

  test('passes arguments unchanged, and ignores the entrypoint of the image', async (t) => {
    const docker = fakeDocker(t)
    const command = ['sh', '-c', 'echo "$HOME"; exit', '--tty', '']
    await docker.run([...ALLOW, '--image', 'alpine:3', '--', ...command], { IMAGES: 'egress-proxy:latest alpine:3' })
      .ended
    const workload = find(docker, 'create workload')
    assert.deepEqual(workload.slice(-6), ['--entrypoint=sh', 'alpine:3', ...command.slice(1)])
    assert.ok(
      find(docker, 'create proxy').includes('egress-proxy:latest'),
      'the proxy is never in the image of the workload',
    )
    assert.deepEqual(valuesOf(workload, '--pull'), ['never'])
  })

  test('passes on input, output and exit code without adding output', async (t) => {
    const docker = fakeDocker(t)
    const ended = await docker.run([...ALLOW, '--', 'cat'], { CODE: '42' }, 'from outside').ended
    assert.deepEqual(ended, { code: 42, stdout: 'of the workload\nfrom outside', stderr: 'its complaint\n' })
    assert.ok(!find(docker, 'create workload').includes('--tty'), 'a pipe is not a terminal')
  })

  test('ends with 125 if the engine could not start the workload, whatever exit code it reports', async (t) => {
    for (const STATUS of ['created 0', 'created 127']) {
      const docker = fakeDocker(t)
      const { code } = await docker.run([...ALLOW, '--', 'true'], { FAIL: 'start*workload', STATUS }).ended
      assert.equal(code, 125)
      assert.deepEqual(docker.left(), [])
    }
  })
})

suite('the command of egress-proxy run', { concurrency: 3 }, () => {
  const files = (t: TestContext): string => {
    const root = tempDir(t)
    for (const folder of ['usr/bin', 'work']) mkdirSync(join(root, folder), { recursive: true })
    for (const program of ['usr/bin/tool', 'work/own']) writeFileSync(join(root, program), '', { mode: 0o755 })
    writeFileSync(join(root, 'usr/bin/text'), '', { mode: 0o644 })
    symlinkSync('tool', join(root, 'usr/bin/link'))
    symlinkSync('nowhere', join(root, 'usr/bin/dangling'))
    symlinkSync('loop', join(root, 'usr/bin/loop'))
    return root
  }
  const run = async (t: TestContext, program: string) => {
    const docker = fakeDocker(t)
    const CONFIG = '"/work" ["A=b","PATH=/usr/local/bin:/usr/bin"]'
    const ended = await docker.run([...ALLOW, '--', program], { ROOT: files(t), CONFIG }).ended
    assert.deepEqual(docker.left(), [])
    return { ...ended, isStarted: docker.calls().some((call) => brief(call) === 'start workload') }
  }

  for (const program of ['tool', 'link', './own', '/usr/bin/tool', '../usr/bin/link']) {
    test(`finds ${program} as the image looks for programs`, async (t) => {
      const { code, stderr } = await run(t, program)
      assert.deepEqual({ code, stderr }, { code: 0, stderr: 'its complaint\n' })
    })
  }
  for (const program of ['no-such-command', 'own', './tool', '/usr/bin/own', 'dangling', 'loop']) {
    test(`ends with 127 and starts nothing for ${program}, which does not exist`, async (t) => {
      const { code, stderr, isStarted } = await run(t, program)
      const sentence = `egress-proxy: no command "${program}" in the image egress-proxy:latest\n`
      assert.deepEqual({ code, stderr, isStarted }, { code: 127, stderr: sentence, isStarted: false })
    })
  }
  for (const program of ['text', '/usr/bin/text', '/usr/bin']) {
    test(`ends with 126 and starts nothing for ${program}, which is not executable`, async (t) => {
      const { code, stderr, isStarted } = await run(t, program)
      const sentence = `egress-proxy: "${program}" in the image egress-proxy:latest is not executable\n`
      assert.deepEqual({ code, stderr, isStarted }, { code: 126, stderr: sentence, isStarted: false })
    })
  }
  test('tries to start if the engine does not tell', async (t) => {
    const docker = fakeDocker(t)
    assert.equal((await docker.run([...ALLOW, '--', 'true'], { FAIL: 'cp *workload:*', CODE: '3' }).ended).code, 3)
  })
})

suite('egress-proxy run that fails half-way', { concurrency: 3 }, () => {
  const steps = {
    'network create*': 'docker network create failed: Error response from daemon: made to fail',
    'network inspect*Internal*': 'docker network inspect failed',
    'create*-workload *': 'docker create failed',
    'container inspect*Networks*': 'docker container inspect failed',
    'container inspect*Config*': 'docker container inspect failed',
    'create*-proxy *': 'docker create failed',
    'network connect*': 'docker network connect failed',
    'cp -*': 'docker cp failed',
    'start*-proxy': 'the proxy did not start: Error response from daemon: made to fail',
  }
  for (const [FAIL, sentence] of Object.entries(steps)) {
    for (const LATE of ['', 'yes']) {
      // A proxy that has reported ready has started.
      if (LATE && FAIL.startsWith('start')) continue
      test(`at ${FAIL}${LATE && ', after its work was done'}: exits with 125 and leaves nothing`, async (t) => {
        const docker = fakeDocker(t)
        const { code, stdout, stderr } = await docker.run([...ALLOW, '--', 'true'], { FAIL, LATE }).ended
        assert.deepEqual({ code, stdout }, { code: 125, stdout: '' })
        assert.ok(stderr.startsWith(`egress-proxy: ${sentence}`), stderr)
        assert.deepEqual(docker.left(), [])
        assert.ok(!docker.calls().some((call) => brief(call) === 'start workload'))
      })
    }
  }

  test('reports the last line of a proxy that ends before it is ready', async (t) => {
    const docker = fakeDocker(t)
    const { code, stderr } = await docker.run([...ALLOW, '--', 'true'], { DUMB: 'yes' }).ended
    assert.deepEqual(
      { code, stderr },
      { code: 125, stderr: 'egress-proxy: the proxy did not start: the port is taken\n' },
    )
    assert.deepEqual(docker.left(), [])
  })

  test('runs nothing on an engine that ignores --internal', async (t) => {
    const docker = fakeDocker(t)
    const { code, stderr } = await docker.run([...ALLOW, '--', 'true'], { INTERNAL: 'false' }).ended
    assert.equal(code, 125)
    assert.match(stderr, /not internal/)
    assert.deepEqual(docker.left(), [])
  })

  test('runs nothing if the engine adds another network', async (t) => {
    const docker = fakeDocker(t)
    const { code, stderr } = await docker.run([...ALLOW, '--', 'true'], { NETWORKS: 'bridge egress-proxy-x-net' }).ended
    assert.equal(code, 125)
    assert.match(stderr, /other networks too: bridge/)
    assert.deepEqual(docker.left(), [])
  })

  for (const CODE of ['0', '3']) {
    test(`reports what cannot be removed yet and removes it later, with the workload’s exit code ${CODE}`, async (t) => {
      const docker = fakeDocker(t)
      const { code, stderr } = await docker.run([...ALLOW, '--', 'true'], { FAIL: 'network rm*', CODE }).ended
      assert.equal(code, Number(CODE))
      assert.match(stderr, /not removed yet, retrying in the background: egress-proxy-\S+-net\n/)
      docker.heal()
      await until(() => docker.left().length === 0)
    })
  }
})

suite('egress-proxy run before anything is created', { concurrency: 3 }, () => {
  const quiet = async (t: TestContext, args: readonly string[], settings: Record<string, string> = {}) => {
    const docker = fakeDocker(t)
    const ended = await docker.run(args, settings).ended
    assert.ok(!docker.calls().some((call) => call.includes('create')), 'nothing was made')
    return ended
  }

  test('treats an entry that could never match as a usage error', async (t) => {
    const { code, stderr } = await quiet(t, ['--allow', 'https://example.com', '--', 'true'])
    assert.equal(code, 1)
    assert.match(stderr, /write example\.com/)
  })

  test('explains how to build a missing image, and does not pull it', async (t) => {
    const docker = fakeDocker(t)
    const { code, stderr } = await docker.run([...ALLOW, '--', 'true'], { IMAGES: '' }).ended
    assert.equal(code, 125)
    assert.match(
      stderr,
      /^egress-proxy: no image egress-proxy:latest, in which the proxy runs\nhint: build it .*docker build /,
    )
    assert.ok(!docker.calls().some(([word]) => word === 'pull'))
  })

  test('pulls the missing image of the workload', async (t) => {
    const docker = fakeDocker(t)
    assert.equal((await docker.run([...ALLOW, '--image', 'alpine:3', '--', 'true']).ended).code, 0)
    assert.deepEqual(find(docker, 'pull'), ['pull', '--quiet', 'alpine:3'])
  })

  for (const [name, args, settings] of [
    ['an image that is a flag', [...ALLOW, '--image=--privileged', '--', 'true'], {}],
    ['an id that is empty', [...ALLOW, '--id', '', '--', 'true'], {}],
  ] as const) {
    test(`treats ${name} as a usage error`, async (t) => assert.equal((await quiet(t, args, settings)).code, 1))
  }

  for (const [name, value] of [
    ['EGRESS_SUBNET', '10.88.0.0/30'],
    ['EGRESS_SUBNET', '10.88.0.1/16'],
    ['EGRESS_SUBNET', 'fd00::/64'],
    ['EGRESS_IMAGE', '--privileged'],
    ['EGRESS_NETWORK', 'container:other'],
  ] as const) {
    test(`refuses ${name}=${value} by name`, async (t) => {
      const { code, stderr } = await quiet(t, [...ALLOW, '--', 'true'], { [name]: value })
      assert.equal(code, 125)
      assert.match(stderr, new RegExp(`^egress-proxy: ${name} in the environment must be`))
    })
  }

  test('reports that docker and podman are missing', async (t) => {
    const { code, stderr } = await fakeDocker(t, []).run([...ALLOW, '--', 'true']).ended
    assert.deepEqual(
      { code, stderr },
      { code: 125, stderr: 'egress-proxy: run needs docker or podman: install one and put it on the PATH\n' },
    )
  })

  test('reports the last line of a docker whose server does not answer', async (t) => {
    const { code, stderr } = await quiet(t, [...ALLOW, '--', 'true'], { FAIL: 'network ls --quiet' })
    assert.equal(code, 125)
    assert.equal(stderr, 'egress-proxy: docker network ls failed: Error response from daemon: made to fail\n')
  })
})

suite('the engine and the subnet of a run', { concurrency: 3 }, () => {
  test('removes the default route that docker before 25 adds, before the workload starts', async (t) => {
    const docker = fakeDocker(t)
    const { code } = await docker.run([...ALLOW, '--', 'true'], { SERVER: '20.10.24+dfsg1', CODE: '3' }).ended
    assert.equal(code, 3)
    const made = docker.calls().map(brief)
    const [created, started] = ['create', 'start'].map((word) => made.filter((call) => call.startsWith(`${word} `)))
    assert.deepEqual(created, ['create holder', 'create workload', 'create proxy'])
    assert.deepEqual(
      [started?.toSorted(), started?.at(-1)],
      [['start holder', 'start proxy', 'start workload'], 'start workload'],
    )
    const [holder, workload] = [find(docker, 'create holder'), find(docker, 'create workload')]
    assert.deepEqual([valuesOf(holder, '--cap-drop'), valuesOf(holder, '--cap-add')], [['ALL'], ['NET_ADMIN']])
    assert.deepEqual([valuesOf(holder, '--ip'), valuesOf(holder, '--dns')], [['10.88.0.3'], ['10.88.0.2']])
    assert.ok(holder.includes('egress-proxy:latest'))
    assert.deepEqual(valuesOf(workload, '--network'), [`container:${holder[2]}`])
    assert.deepEqual(valuesOf(workload, '--cap-drop'), ['NET_RAW', 'NET_ADMIN', 'MKNOD'])
    // The engine refuses these for a network of another container.
    for (const flag of ['--ip', '--dns', '--sysctl']) assert.deepEqual(valuesOf(workload, flag), [])
    assert.deepEqual(docker.left(), [])
  })

  test('runs nothing if the default route cannot be removed, or other networks are added', async (t) => {
    for (const [settings, sentence] of [
      [{ ROUTED: 'yes' }, /^egress-proxy: the private network did not start: the default route .* cannot be removed$/m],
      [{ NETWORKS: 'bridge egress-proxy-x-net' }, /other networks too: bridge/],
    ] as const) {
      const docker = fakeDocker(t)
      const ended = await docker.run([...ALLOW, '--', 'true'], { SERVER: '24.0.7', ...settings }).ended
      assert.equal(ended.code, 125)
      assert.match(ended.stderr, sentence)
      assert.deepEqual(docker.left(), [])
      assert.ok(!docker.calls().some((call) => brief(call) === 'start workload'))
    }
  })

  test('uses podman without docker, with its own options', async (t) => {
    const docker = fakeDocker(t, ['podman'])
    assert.equal((await docker.run([...ALLOW, '--', 'true'], { VERSION: 'podman version 4.3.1' }).ended).code, 0)
    const network = find(docker, 'network create net')
    assert.ok(network.includes('--disable-dns') && !network.includes('--opt'))
    assert.deepEqual(valuesOf(find(docker, 'create proxy'), '--network'), ['podman'])
    const workload = find(docker, 'create workload')
    assert.ok(workload.includes('--init') && workload.includes('--no-hosts'))
    assert.deepEqual(valuesOf(workload, '--hostname'), ['workload'])
    const [path, text] = docker
      .read('hosts')
      .toString('latin1')
      .split(/\0(?:.*ustar)?[0\0]*\0/s)
    assert.deepEqual([path, text], ['etc/hosts', '127.0.0.1\tlocalhost\n10.88.0.3\tworkload\n'])
  })

  test('skips a subnet that another run has just taken', async (t) => {
    const docker = fakeDocker(t)
    assert.equal(
      (await docker.run([...ALLOW, '--', 'true'], { OVERLAP: 'network create*10.88.0.0/28*' }).ended).code,
      0,
    )
    assert.deepEqual(valuesOf(find(docker, 'create workload'), '--ip'), ['10.88.0.19'])
  })

  test('avoids a network that covers the whole first pool', async (t) => {
    const docker = fakeDocker(t)
    await docker.run([...ALLOW, '--', 'true'], { TAKEN: '10.88.0.0/16' }).ended
    assert.deepEqual(valuesOf(find(docker, 'network create net'), '--subnet'), ['10.188.0.0/28'])
  })

  test('uses EGRESS_SUBNET as it is, and reports a conflict', async (t) => {
    const docker = fakeDocker(t)
    await docker.run([...ALLOW, '--', 'true'], { EGRESS_SUBNET: '10.9.8.0/24' }).ended
    assert.deepEqual(valuesOf(find(docker, 'network create net'), '--subnet'), ['10.9.8.0/24'])
    assert.deepEqual(valuesOf(find(docker, 'create workload'), '--ip'), ['10.9.8.3'])
    const settings = { EGRESS_SUBNET: '10.9.8.0/24', OVERLAP: 'network create*' }
    const { code, stderr } = await docker.run([...ALLOW, '--', 'true'], settings).ended
    assert.equal(code, 125)
    assert.match(stderr, /^egress-proxy: the subnet 10\.9\.8\.0\/24 of EGRESS_SUBNET is in use\nhint: /)
  })

  test('connects the proxy to EGRESS_NETWORK', async (t) => {
    const docker = fakeDocker(t)
    await docker.run([...ALLOW, '--', 'true'], { EGRESS_NETWORK: 'outside' }).ended
    assert.deepEqual(valuesOf(find(docker, 'create proxy'), '--network'), ['outside'])
  })
})

suite('a run that is interrupted', { concurrency: 3 }, () => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    test(`forwards ${signal} to the workload, and leaves nothing`, async (t) => {
      const docker = fakeDocker(t)
      const run = docker.run([...ALLOW, '--', 'true'], { LONG: 'yes', CODE: '130' })
      await isAt(docker, 'start workload')
      killed(run, signal)
      assert.equal((await run.ended).code, 130)
      assert.equal(docker.read('signals').toString(), `${signal}\n`)
      assert.deepEqual(docker.left(), [])
    })
  }

  test('ends on a signal before the workload has started, and leaves nothing', async (t) => {
    const docker = fakeDocker(t)
    const run = docker.run([...ALLOW, '--', 'true'], { LONG: 'yes' })
    await isAt(docker, 'network create net')
    killed(run, 'SIGTERM')
    assert.equal((await run.ended).code, 143)
    assert.deepEqual(docker.left(), [])
    assert.ok(!docker.calls().some((call) => brief(call) === 'start workload'))
  })

  test('does not wait for the workload after a second signal, and leaves nothing', async (t) => {
    const docker = fakeDocker(t)
    const run = docker.run([...ALLOW, '--', 'true'], { LONG: 'yes', DEAF: 'SIGINT' })
    await isAt(docker, 'start workload')
    killed(run, 'SIGINT')
    await isAt(docker, 'kill workload')
    killed(run, 'SIGINT')
    assert.equal((await run.ended).code, 130)
    await until(() => docker.left().length === 0)
  })

  for (const words of ['network create net', 'create proxy', 'start proxy', 'start workload']) {
    test(`leaves nothing after kill -9 at ${words}`, async (t) => {
      const docker = fakeDocker(t)
      const run = docker.run([...ALLOW, '--', 'true'], { LONG: 'yes' })
      await isAt(docker, words)
      killed(run, 'SIGKILL')
      await once(run.child, 'exit')
      // While the network is being created there is nothing for a moment.
      await until(
        () =>
          docker.left().length === 0 &&
          docker.calls().some((call) => call[0] === 'ps' && call.includes(tagFilter(docker))),
      )
      assert.deepEqual(docker.left(), [])
    })
  }

  test('removes what a dead run has left, and nothing of a live one', async (t) => {
    const docker = fakeDocker(t)
    const [where, pid, started, chance] = makeTag().split('-')
    const dead = `${where}-${pid}-${Number(started) + 1}-${chance}`
    const living = [where, pid, started, chance].join('-')
    const distant = `00000000-${pid}-1-${chance}`
    for (const tag of [dead, living, distant]) {
      docker.plant('containers', `egress-proxy-${tag}-proxy`)
      docker.plant('networks', `egress-proxy-${tag}-net`)
    }
    docker.plant('containers', 'egress-proxy-of-somebody')
    await docker.run([...ALLOW, '--', 'true']).ended
    assert.ok(!docker.left().some((name) => name.includes(dead)))
    for (const tag of [living, distant]) assert.equal(docker.left().filter((name) => name.includes(tag)).length, 2)
    assert.ok(docker.left().includes('egress-proxy-of-somebody'))
  })
})

function cut(line: string): [string, string] {
  const at = line.indexOf('=')
  return [line.slice(0, at), line.slice(at + 1)]
}

/** What the cleanup watcher looks for. */
function tagFilter(docker: FakeDocker): string {
  const [label] = valuesOf(find(docker, 'network create net'), '--label')
  return `label=${label}`
}
