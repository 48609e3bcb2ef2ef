// The network of a cell: programs reach allowed hosts through the proxy and get a reason for denied ones; nothing else works.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, type TestContext, test } from 'node:test'
import { agentDir } from '../support/agent-files.ts'
import {
  ALLOWED,
  type ClientFixture,
  DENIED,
  GREETING,
  JAVA_CLIENT,
  openClientFixture,
  publish,
} from '../support/egress-clients.ts'
import { needs, type PartName } from '../support/needs.ts'
import { openRuntime } from '../support/runtimes.ts'
import { toolSocket } from '../support/tool-socket.ts'

const SENTENCE = /egress-proxy: host "denied\.test" port \d+ is not allowed for "main"/
const PHRASE = /Forbidden by egress-proxy \(host not in allowlist\)/
const NODE = '/svc/node_modules/.bin/node'

interface Client {
  readonly parts: readonly PartName[]
  readonly path?: string
  /** A shell line. */
  command(url: string, certificate: string): string
  readonly got?: RegExp
  readonly denied: { readonly http: RegExp; readonly https: RegExp }
}

const FETCH = 'fetch(process.argv[1]).then(async (got) => console.log(got.status, await got.text()))'
const URLLIB = 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode(), end="")'

const CLIENTS: Readonly<Record<string, Client>> = {
  curl: {
    parts: ['curl'],
    command: (url, certificate) => `curl -sSv --cacert ${certificate} ${url}`,
    denied: { http: SENTENCE, https: /< HTTP\/1\.1 403 Forbidden by egress-proxy/ },
  },
  git: {
    parts: ['git'],
    path: '/repository.git',
    command: (url, certificate) => `git -c http.sslCAInfo=${certificate} ls-remote --heads ${url}`,
    got: /^[0-9a-f]{40}\trefs\/heads\/main$/m,
    denied: { http: SENTENCE, https: /CONNECT tunnel failed, response 403/ },
  },
  npm: {
    parts: ['npm'],
    path: '/',
    command: (url, certificate) =>
      `npm view a-package version --registry=${url} --cafile=${certificate} --fetch-retries=0`,
    got: /^1\.2\.3$/m,
    denied: { http: PHRASE, https: PHRASE },
  },
  pip: {
    parts: ['pip'],
    path: '/simple',
    command: (url, certificate) =>
      `/usr/bin/pip3 --disable-pip-version-check --retries 0 --cert ${certificate} --trusted-host ${new URL(url).hostname} download -vv --no-deps -i ${url} a_package && ls a_package*`,
    got: /^a_package-1\.0-py3-none-any\.whl$/m,
    denied: { http: PHRASE, https: /Tunnel connection failed: 403 Forbidden by egress-proxy/ },
  },
  "Node's fetch": {
    parts: [],
    command: (url, certificate) => `NODE_EXTRA_CA_CERTS=${certificate} ${NODE} -e '${FETCH}' ${url}`,
    denied: { http: SENTENCE, https: /Proxy response \(403\)/ },
  },
  "Python's urllib": {
    parts: ['python'],
    command: (url, certificate) => `SSL_CERT_FILE=${certificate} python3 -c '${URLLIB}' ${url}`,
    denied: { http: PHRASE, https: PHRASE },
  },
}

suite('ordinary programs in a cell', needs('bubblewrap', 'kernel', 'openssl', 'git'), () => {
  const ending: (() => void | Promise<void>)[] = []
  let stage: ClientFixture
  before(async () => {
    stage = await openClientFixture({ after: (work) => void ending.unshift(work) })
    publish(stage)
    publishWheel(stage)
  })
  after(async () => {
    for (const work of ending) await work()
  })

  const open = async (t: TestContext): Promise<(command: string) => Promise<string>> => {
    const socket = await toolSocket(t)
    const runtime = await openRuntime(
      t,
      'command',
      { SANDBOX: 'bwrap', SANDBOX_PATHS: stage.folder },
      { allow: [ALLOWED], hostsPath: join(stage.folder, 'hosts') },
    )
    return async (command) =>
      (await runtime.run(socket.job({ config: { command: `(${command}) 2>&1; true` } }))).result ?? ''
  }

  for (const [name, { parts, path, command, got, denied }] of Object.entries(CLIENTS))
    test(`${name} reaches an allowed host and shows the reason for a denied one`, needs(...parts), async (t) => {
      const shell = await open(t)
      for (const scheme of ['http', 'https'] as const) {
        assert.match(
          await shell(command(stage.url(scheme, ALLOWED, path), stage.certificate)),
          got ?? new RegExp(GREETING.trim()),
        )
        assert.match(await shell(command(stage.url(scheme, DENIED, path), stage.certificate)), denied[scheme])
      }
    })

  test('Java reaches an allowed host and shows the reason for a denied one', needs('java'), async (t) => {
    writeFileSync(join(stage.folder, 'Ask.java'), JAVA_CLIENT)
    const shell = await open(t)
    const urls = [ALLOWED, DENIED].flatMap((host) => [stage.url('http', host), stage.url('https', host)])
    const output = await shell(`java ${stage.folder}/Ask.java ${stage.certificate} ${urls.join(' ')}`)
    const [plain, secure, plainDenied = '', secureDenied = ''] = output
      .split('\n')
      .filter((line) => !line.startsWith('Picked up JAVA_TOOL_OPTIONS'))
    assert.deepEqual([plain, secure], ['200 OK', '200 OK'])
    assert.match(plainDenied, /^403 Forbidden by egress-proxy/)
    assert.match(secureDenied, /Proxy returns "HTTP\/1\.1 403 Forbidden by egress-proxy/)
  })

  test('git over ssh goes through the proxy', async (t) => {
    const shell = await open(t)
    const greeter = createServer((socket) => socket.end('SSH-2.0-test\r\n'))
    greeter.listen(0, '127.0.0.1')
    await once(greeter, 'listening')
    t.after(() => greeter.close())
    const { port } = greeter.address() as { port: number }
    const [, program] = /ProxyCommand='(.*) %h %p'/.exec(await shell('echo "$GIT_SSH_COMMAND"')) ?? []
    assert.equal(await shell(`${program} ${ALLOWED} ${port} < /dev/null`), 'SSH-2.0-test')
    assert.equal(
      await shell(`${program} ${DENIED} ${port} < /dev/null`),
      `cannot connect to ${DENIED}:${port}: blocked-by-allowlist`,
    )
  })
})

/** Publishes a minimal package for pip and its index page. */
function publishWheel({ files }: ClientFixture): void {
  const script = `
import os, sys, zipfile
root = sys.argv[1]
os.makedirs(root + '/simple/a-package', exist_ok=True)
name = 'a_package-1.0-py3-none-any.whl'
with zipfile.ZipFile(root + '/' + name, 'w') as wheel:
    wheel.writestr('a_package-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: a-package\\nVersion: 1.0\\n')
    wheel.writestr('a_package-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('a_package-1.0.dist-info/RECORD', '')
with open(root + '/simple/a-package/index.html', 'w') as page:
    page.write('<html><body><a href="/' + name + '">' + name + '</a></body></html>')
`
  execFileSync('python3', ['-c', script, files])
}

suite('the network of a cell', needs('bubblewrap', 'kernel', 'python'), () => {
  const open = async (t: TestContext): Promise<(command: string) => Promise<string>> => {
    const socket = await toolSocket(t)
    const runtime = await openRuntime(
      t,
      'command',
      { SANDBOX: 'bwrap', SANDBOX_PATHS: agentDir(t) },
      { allow: [ALLOWED] },
    )
    return async (command) =>
      (await runtime.run(socket.job({ config: { command: `(${command}) 2>&1; true` } }))).result ?? ''
  }
  const python = (lines: string): string => `python3 -c '${lines.replaceAll("'", '"')}'`

  test('has only the loopback interface', async (t) => {
    const shell = await open(t)
    assert.equal(await shell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), 'lo')
  })

  test('reaches no TCP or UDP port of the machine', async (t) => {
    const shell = await open(t)
    const tcp = createServer((socket) => socket.end('inside'))
    tcp.listen(0, '0.0.0.0')
    const udp = createSocket('udp4').bind(0, '127.0.0.1')
    await Promise.all([once(tcp, 'listening'), once(udp, 'listening')])
    t.after(() => {
      tcp.close()
      udp.close()
    })
    udp.on('message', () => assert.fail('a datagram came out of the cell'))
    const { port } = tcp.address() as { port: number }
    const connect = (host: string): string =>
      python(`import socket; print(socket.create_connection(("${host}", ${port}), 3).recv(9))`)
    assert.match(await shell(connect('127.0.0.1')), /Connection refused/)
    for (const address of machineAddresses()) assert.match(await shell(connect(address)), /Network is unreachable/)
    await shell(python(`import socket; socket.socket(2, 2).sendto(b"x", ("127.0.0.1", ${udp.address().port}))`))
  })

  test('gets no access to IP addresses from the proxy', async (t) => {
    const shell = await open(t)
    for (const target of [
      '127.0.0.1:80',
      '169.254.169.254:80',
      '[::1]:80',
      '10.0.0.1:443',
      '0x7f000001:80',
      '1.1.1.1:443',
    ])
      assert.match(
        await shell(`curl -sv --noproxy '' -x http://127.0.0.1:3128 -p http://${target}/`),
        /403 Forbidden by egress-proxy|400 Bad Request/,
        target,
      )
  })

  test('reaches no address directly: TCP, UDP, ICMP, raw sockets, IPv6, link-local, metadata', async (t) => {
    const shell = await open(t)
    for (const address of ['169.254.169.254', '10.0.0.1', '192.168.0.1', '1.1.1.1'])
      assert.match(
        await shell(python(`import socket; socket.create_connection(("${address}", 80), 3)`)),
        /Network is unreachable/,
      )
    for (const address of ['fe80::1', '2001:4860:4860::8888', 'fd00:ec2::254'])
      assert.match(
        await shell(python(`import socket; socket.create_connection(("${address}", 80), 3)`)),
        /unreachable|Invalid argument|Cannot assign/,
      )
    assert.match(
      await shell(python('import socket; socket.socket(2, 2).sendto(b"x", ("1.1.1.1", 53))')),
      /Network is unreachable/,
    )
    assert.match(await shell(python('import socket; socket.socket(2, 3, 1)')), /Operation not permitted/)
    assert.match(await shell(python('import socket; socket.socket(10, 3, 58)')), /Operation not permitted/)
    assert.match(
      await shell(
        python('import socket; socket.socket(2, 2, 1).sendto(b"\\x08\\0\\0\\0\\0\\0\\0\\0", ("1.1.1.1", 0))'),
      ),
      /Network is unreachable|Permission denied/,
    )
    for (const family of [17, 40, 38, 31])
      assert.match(await shell(python(`import socket; socket.socket(${family}, 3)`)), /not supported/)
  })

  test('cannot resolve names itself', async (t) => {
    const shell = await open(t)
    assert.match(await shell(python(`import socket; print(socket.getaddrinfo("${ALLOWED}", 80))`)), /gaierror/)
    assert.match(await shell(python('import socket; print(socket.gethostbyname("localhost"))')), /^127\.0\.0\.1$/)
  })

  test('has a private loopback network', async (t) => {
    const shell = await open(t)
    const serve = `import http.server; http.server.HTTPServer(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler).serve_forever()`
    assert.match(
      await shell(
        `touch mine; ${python(serve)} 2>/dev/null & for i in 1 2 3 4 5 6 7 8 9; do curl -s http://localhost:8000/ && break; sleep 0.3; done; kill $!`,
      ),
      /mine/,
    )
  })
})

function machineAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) =>
    (all ?? []).flatMap(({ address, family, internal }) => (family === 'IPv4' && !internal ? [address] : [])),
  )
}
