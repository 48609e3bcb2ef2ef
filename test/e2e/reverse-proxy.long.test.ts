// Runs the configurations of docs/reverse-proxy.md with the real servers, in front of a real svc. Only addresses, ports and paths
// of certificates are replaced.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { request as plainRequest } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { request } from 'node:https'
import { connect, type LookupFunction } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { suite, type TestContext, test } from 'node:test'
import { parseDotenv } from '../../src/lib/text/dotenv.ts'
import { freePort } from '../support/free-port.ts'
import { settingsOf } from '../support/guide.ts'
import { needs } from '../support/needs.ts'
import { instance } from '../support/svc.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/reverse-proxy.md'), 'utf8')
const HOST = 'svc.example.com'
/** Visitors have another address than the web server. */
const VISITOR = '127.0.0.2'
const SECRET = 's3cret'

interface Place {
  readonly folder: string
  readonly certificate: string
  readonly key: string
  readonly port: number
  /** Where the front door listens. */
  readonly door: string
}

interface WebServer {
  readonly language: 'caddyfile' | 'nginx'
  configure(block: string, place: Place): string
  command(config: string): readonly string[]
}

const SERVERS: Record<'caddy' | 'nginx', WebServer> = {
  caddy: {
    language: 'caddyfile',
    configure: (block, { certificate, key, port, door }) =>
      `{\n\tadmin off\n\tauto_https off\n}\n${block
        .replace(`${HOST} {`, `https://${HOST}:${port} {\n\ttls ${certificate} ${key}`)
        .replace('127.0.0.1:8080', door)}`,
    command: (config) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', config],
  },
  nginx: {
    language: 'nginx',
    configure: (block, { folder, certificate, key, port, door }) => `daemon off;
pid ${folder}/nginx.pid;
error_log stderr;
${process.getuid?.() === 0 ? 'user root;' : ''}
events {}
http {
    access_log off;
    ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join('\n    ')}
${block
  .replace('listen 443', `listen 127.0.0.1:${port}`)
  .replace(/\/etc\/ssl\/certs\/\S+(?=;)/, certificate)
  .replace(/\/etc\/ssl\/private\/\S+(?=;)/, key)
  .replace('127.0.0.1:8080', door)}}
`,
    command: (config) => ['/usr/sbin/nginx', '-e', 'stderr', '-c', config],
  },
}

suite('behind', () => {
  for (const [name, server] of Object.entries(SERVERS) as ['caddy' | 'nginx', WebServer][])
    test(`${name}, svc streams, limits and sees its visitors`, needs(name, 'openssl'), async (t) => {
      const settings = Object.fromEntries(parseDotenv(settingsOf(GUIDE).join(''), 'the guide'))
      assert.equal(settings.WEB_HOST, HOST)
      const demo = await instance(t, settings)
      writeFileSync(
        join(demo.root, '.env'),
        readFileSync(join(demo.root, '.env'), 'utf8').replace(/^WEB_HOST=.*$/m, ''),
      )
      const served = await demo.serve()
      const logged: string[] = []
      served.child.stderr?.setEncoding('utf8').on('data', (lines: string) => logged.push(lines))
      const port = await freePort()
      const { folder, ca } = await startServer(t, server, port, new URL(served.urls.get('proxyd') ?? '').host)

      const send = (path: string, options: { method?: string; body?: string | Buffer; headers?: object } = {}) =>
        post({ ca, port, path, ...options })

      // The chat link of the command line has the host of the guide.
      const link = /^url: (.*)$/m.exec((await demo.run('token', 'demo', 'issue', 'chat', 'main')).stdout)?.[1] ?? ''
      assert.ok(link.startsWith(`https://${HOST}/chat/`), link)
      const path = new URL(link).pathname
      const form = { 'Content-Type': 'application/x-www-form-urlencoded' }

      const page = await send(path, { method: 'GET', headers: { Accept: 'text/html' } })
      assert.deepEqual([page.status, page.body.includes('</html>')], [200, true])

      // Two messages arrive one by one, while the round still waits.
      writeFileSync(join(demo.root, 'groups/main/demo.script'), '/say first\n/wait 300ms\n/say second\n/wait 1m\n')
      const posted = await send(path, { body: 'content=hi', headers: form })
      const { turn_id: turn } = JSON.parse(posted.body)
      const pieces: string[] = []
      const session = connectHttp2(`https://${HOST}:${port}`, { ca, servername: HOST, lookup: toLoopback })
      t.after(() => session.destroy())
      const stream = session.request({ ':path': `${path}${turn}/sse`, accept: 'text/event-stream' })
      stream.setEncoding('utf8').on('data', (piece: string) => pieces.push(piece))
      await until(() => pieces.join('').includes('second'))
      assert.ok(
        pieces.findIndex((piece) => piece.includes('first')) < pieces.findIndex((piece) => piece.includes('second')),
      )
      assert.equal(JSON.parse((await send(`${path}${turn}`, { method: 'GET' })).body).status, 'pending')
      assert.equal(session.alpnProtocol, 'h2')
      stream.close()

      // The visitor's own header does not count, neither through the web server nor past it.
      const forged = { ...form, 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'http' }
      const remotes = (): unknown[] =>
        logged
          .join('')
          .split('\n')
          .filter((line) => line.includes('"POST"'))
          .map((line) => JSON.parse(line).remote)
      await send(path, { body: 'content=hi', headers: forged })
      const direct = plainRequest(`${served.urls.get('proxyd')}${path}`, {
        ...{ method: 'POST', headers: forged, localAddress: '127.0.0.3' },
      })
      direct.end('content=hi')
      await once(direct, 'response')
      await until(() => remotes().length === 3)
      assert.deepEqual(remotes(), [VISITOR, VISITOR, '127.0.0.3'])

      // The limit of the link. A web server reads a small rest of a body before it closes the connection.
      const problem = await send(path, { body: Buffer.alloc(1_100_000, 'x'), headers: form })
      assert.deepEqual([problem.status, JSON.parse(problem.body).code], [413, 'too_large'])
      // The limit of the web server, which does not read a large rest: a slow client sees only the closed connection.
      const refused = await send(path, { body: Buffer.alloc(21_000_000, 'x'), headers: form }).catch(({ code }) => code)
      assert.ok(['ECONNRESET', 'EPIPE'].includes(refused) || refused.status === 413, JSON.stringify(refused))

      const hookArgs = ['token', 'demo', 'issue', 'webhook', 'main', 'ci', '--verify', 'hmac:X-Signature']
      writeFileSync(join(folder, 'secret'), SECRET)
      const minted = execFileSync(
        'sh',
        ['-c', `"$@" < ${folder}/secret`, 'sh', ...svcArgs(), ...hookArgs, '--verify-secret', '-'],
        {
          env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: join(demo.root, '..') },
          encoding: 'utf8',
        },
      )
      const hook = `/hook/${/^token: (.*)$/m.exec(minted)?.[1]}`
      const body = Buffer.from('{"ok": true,\r\n "é": 1}')
      const sign = (bytes: Buffer): object => ({
        'X-Signature': createHmac('sha256', SECRET).update(bytes).digest('base64'),
      })
      assert.equal((await send(hook, { body, headers: sign(body) })).status, 204)
      assert.equal((await send(hook, { body, headers: sign(Buffer.from('other')) })).status, 401)
    })
})

const svcArgs = (): string[] => [process.execPath, join(import.meta.dirname, '../../bin/svc.js')]

/** Starts the server with the configuration of the guide and waits until it listens. */
async function startServer(t: TestContext, server: WebServer, port: number, door: string) {
  const folder = tempDir(t)
  const [certificate, key] = [join(folder, 'certificate.pem'), join(folder, 'key.pem')]
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
      ...['-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST}`, '-keyout', key, '-out', certificate],
    ],
    { stdio: 'ignore' },
  )
  const block = new RegExp(`^\`\`\`${server.language}\n(.*?)^\`\`\`$`, 'ms').exec(GUIDE)?.[1] ?? assert.fail()
  const config = join(folder, 'config')
  writeFileSync(config, server.configure(block, { folder, certificate, key, port, door }))
  const [command = '', ...args] = server.command(config)
  const child = spawn(command, args, {
    env: { PATH: process.env.PATH, HOME: folder },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  t.after(() => void child.kill('SIGTERM'))
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (line: string) => {
    said += line
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${command} does not start: ${said}`)
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    return isOpen
  })
  return { folder, ca: readFileSync(certificate) }
}

interface PostOptions {
  readonly ca: Buffer
  readonly port: number
  readonly path: string
  readonly method?: string
  readonly body?: string | Buffer
  readonly headers?: object
}

async function post({ ca, port, path, method = 'POST', body, headers = {} }: PostOptions) {
  const sent = request({
    ...{ host: '127.0.0.1', port, path, method, ca, servername: HOST, localAddress: VISITOR, agent: false },
    headers: { Host: HOST, ...headers, ...(body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) }) },
  })
  // A server that refuses a body may close before it has read all of it.
  sent.on('error', () => {})
  sent.end(body)
  const [response] = await once(sent, 'response')
  return { status: Number(response.statusCode), body: await text(response) }
}

const toLoopback: LookupFunction = (_name, { all }, found) => {
  if (all) found(null, [{ address: '127.0.0.1', family: 4 }])
  else found(null, '127.0.0.1', 4)
}
