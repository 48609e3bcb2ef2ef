// Common client programs through the proxy: allowed hosts work, and for denied hosts the user sees the reason. The shown
// texts are pinned, because the manual quotes them.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import {
  ALLOWED,
  type ClientFixture,
  DENIED,
  GREETING,
  JAVA_CLIENT,
  openClientFixture,
  publish,
  type Ran,
  run,
  type Scheme,
} from '../support/egress-clients.ts'
import { needs, type PartName } from '../support/needs.ts'
import { until } from '../support/until.ts'

interface Denial {
  readonly code: number
  /** On either output. */
  readonly shows: RegExp
}

interface Client {
  readonly part?: PartName
  /** The path on the origin; by default that of the greeting. */
  readonly path?: string
  request(stage: ClientFixture, url: string): Promise<Ran>
  /** Checks an allowed request; by default that the greeting is printed. */
  check?(stage: ClientFixture, url: string, ran: Ran): void
  readonly denied: Record<Scheme, Denial>
}

const PHRASE = /Forbidden by egress-proxy \(host not in allowlist\)/
const SENTENCE = /egress-proxy: host "denied\.test" port \d+ is not allowed for "clients"\. This is policy/

const FETCH = 'fetch(process.argv[1]).then(async (got) => console.log(got.status, got.statusText, await got.text()))'
const URLLIB = 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode(), end="")'

const CLIENTS: Record<string, Client> = {
  curl: {
    part: 'curl',
    request: (stage, url) => run(stage, 'curl', ['-sS', '--cacert', stage.certificate, url]),
    denied: {
      http: { code: 0, shows: SENTENCE },
      https: { code: 56, shows: /curl: \(56\) CONNECT tunnel failed, response 403/ },
    },
  },
  'curl that fails on errors': {
    part: 'curl',
    request: (stage, url) => run(stage, 'curl', ['-sSv', '--fail-with-body', '--cacert', stage.certificate, url]),
    denied: {
      http: { code: 22, shows: SENTENCE },
      https: { code: 56, shows: /^< X-Proxy-Error: blocked-by-allowlist/m },
    },
  },
  wget: {
    part: 'wget',
    request: (stage, url) =>
      run(stage, 'wget', ['-nv', '-O', '-', '-t', '1', `--ca-certificate=${stage.certificate}`, url]),
    denied: {
      http: { code: 8, shows: new RegExp(`ERROR 403: ${PHRASE.source}`) },
      https: { code: 4, shows: new RegExp(`Proxy tunneling failed: ${PHRASE.source}`) },
    },
  },
  git: {
    part: 'git',
    path: '/repository.git',
    request: (stage, url) =>
      run(stage, 'git', ['-c', `http.sslCAInfo=${stage.certificate}`, 'ls-remote', '--heads', url]),
    check: (_, __, { stdout }) => assert.match(stdout, /^[0-9a-f]{40}\trefs\/heads\/main\n$/),
    denied: {
      http: { code: 128, shows: new RegExp(`remote: ${SENTENCE.source}`) },
      https: { code: 128, shows: /unable to access 'https:.*CONNECT tunnel failed, response 403/ },
    },
  },
  npm: {
    part: 'npm',
    path: '/',
    request: (stage, url) =>
      run(stage, 'npm', [
        'view',
        'a-package',
        'version',
        `--registry=${url}`,
        `--cafile=${stage.certificate}`,
        '--fetch-retries=0',
      ]),
    check: (_, __, { stdout }) => assert.equal(stdout.trim(), '1.2.3'),
    denied: {
      http: { code: 1, shows: new RegExp(`E403[\\s\\S]*403 ${PHRASE.source}`) },
      https: { code: 1, shows: new RegExp(`E403[\\s\\S]*403 ${PHRASE.source}`) },
    },
  },
  "Node's fetch": {
    request: (stage, url) =>
      run(stage, process.execPath, ['-e', FETCH, url], {
        NODE_USE_ENV_PROXY: '1',
        NODE_EXTRA_CA_CERTS: stage.certificate,
      }),
    check: (_, __, { stdout }) => assert.equal(stdout, `200 OK ${GREETING}\n`),
    denied: {
      http: { code: 0, shows: new RegExp(`^403 ${PHRASE.source} ${SENTENCE.source}`) },
      https: { code: 1, shows: /fetch failed[\s\S]*Proxy response \(403\) !== 200 when HTTP Tunneling/ },
    },
  },
  "Python's urllib": {
    part: 'python',
    request: (stage, url) => run(stage, 'python3', ['-c', URLLIB, url], { SSL_CERT_FILE: stage.certificate }),
    denied: {
      http: { code: 1, shows: new RegExp(`HTTP Error 403: ${PHRASE.source}`) },
      https: { code: 1, shows: new RegExp(`<urlopen error Tunnel connection failed: 403 ${PHRASE.source}>`) },
    },
  },
  apt: {
    part: 'apt',
    request: (stage, url) => run(stage, '/usr/lib/apt/apt-helper', aptArgs(stage, url)),
    check: (stage, url) => assert.equal(readFileSync(aptFile(stage, url), 'utf8'), GREETING),
    denied: {
      http: { code: 100, shows: new RegExp(`403 +${PHRASE.source}`) },
      https: { code: 100, shows: new RegExp(`Invalid response from proxy: HTTP/1\\.1 403 ${PHRASE.source}`) },
    },
  },
}

const aptFile = (stage: ClientFixture, url: string): string => join(stage.folder, encodeURIComponent(url))

/** Uses only the downloader of apt, without the package lists and database of the machine. */
function aptArgs(stage: ClientFixture, url: string): string[] {
  const options = [
    // The user _apt cannot enter the folder.
    'APT::Sandbox::User=root',
    'Acquire::Retries=0',
    // Overrides the settings of the machine.
    `Acquire::http::Proxy=http://127.0.0.1:${stage.proxyPort}`,
    `Acquire::https::Proxy=http://127.0.0.1:${stage.proxyPort}`,
    `Acquire::https::CAInfo=${stage.certificate}`,
  ]
  return [...options.flatMap((option) => ['-o', option]), 'download-file', url, aptFile(stage, url)]
}

suite('clients through the proxy', needs('openssl', 'git'), () => {
  const ending: (() => void | Promise<void>)[] = []
  let stage: ClientFixture
  before(async () => {
    stage = await openClientFixture({ after: (work) => void ending.unshift(work) })
    publish(stage)
  })
  after(async () => {
    for (const work of ending) await work()
  })

  for (const [name, { part, path, request, check, denied }] of Object.entries(CLIENTS)) {
    const options = part ? needs(part) : {}

    test(`${name} reaches an allowed host over HTTP and HTTPS`, options, async () => {
      for (const scheme of ['http', 'https'] as const) {
        const url = stage.url(scheme, ALLOWED, path)
        const ran = await request(stage, url)
        assert.equal(ran.code, 0, ran.stderr)
        if (check) check(stage, url, ran)
        else assert.equal(ran.stdout, GREETING)
      }
    })

    test(`${name} shows that the proxy denied a host`, options, async () => {
      for (const scheme of ['http', 'https'] as const) {
        const { code, stdout, stderr } = await request(stage, stage.url(scheme, DENIED, path))
        assert.match(`${stdout}${stderr}`, denied[scheme].shows)
        assert.equal(code, denied[scheme].code)
      }
    })
  }

  test('curl can print the status of the proxy for scripts', needs('curl'), async () => {
    const args = ['-s', '-o', 'nothing', '-w', '%{http_connect} %{http_code}', stage.url('https', DENIED)]
    assert.equal((await run(stage, 'curl', args)).stdout, '403 000')
  })

  test('a denied request is one log line with the reason', needs('curl'), async () => {
    const { length } = stage.log
    await run(stage, 'curl', ['-s', stage.url('https', `only-here.${DENIED}`)])
    const lines = (): string[] => stage.log.slice(length).filter((line) => line.includes('only-here'))
    await until(() => lines().length > 0)
    const [line = '', ...others] = lines()
    assert.match(
      line,
      /"mode":"connect".*"id":"clients","host":"only-here\.denied\.test".*"reason":"blocked-by-allowlist"/,
    )
    assert.deepEqual(others, [])
  })

  test('Java reaches allowed hosts and shows that the proxy denied others', needs('java'), async () => {
    const program = join(stage.folder, 'Ask.java')
    writeFileSync(program, JAVA_CLIENT)
    const proxyFlags = ['http', 'https'].flatMap((name) => [
      `-D${name}.proxyHost=127.0.0.1`,
      `-D${name}.proxyPort=${stage.proxyPort}`,
    ])
    const hosts = [ALLOWED, DENIED]
    const urls = hosts.flatMap((host) => (['http', 'https'] as const).map((scheme) => stage.url(scheme, host)))
    const { stdout, stderr } = await run(stage, 'java', [
      '-Xshare:auto',
      ...proxyFlags,
      program,
      stage.certificate,
      ...urls,
    ])
    const [plain, secure, plainDenied = '', secureDenied = ''] = stdout.split('\n')
    assert.deepEqual([plain, secure], ['200 OK', '200 OK'], stderr)
    assert.match(plainDenied, new RegExp(`^403 ${PHRASE.source}$`))
    assert.match(
      secureDenied,
      new RegExp(`Unable to tunnel through proxy. Proxy returns "HTTP/1.1 403 ${PHRASE.source}"`),
    )
  })
})
