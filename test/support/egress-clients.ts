// What the tests of real clients share: an origin by HTTP and by HTTPS, a proxy before it, and clients that are told of the
// proxy as everybody tells them, by the environment.
import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { delimiter, join } from 'node:path'
import { startProxy } from '../../src/egress/proxy.ts'
import { type Ending, tempDir } from './temp.ts'

export const ALLOWED = 'allowed.test'
export const DENIED = 'denied.test'
export const GREETING = 'hello from the origin\n'

export interface Stage {
  readonly folder: string
  /** Served at the root of both origins. */
  readonly files: string
  /** The certificate of both names, which is its own authority. */
  readonly certificate: string
  /** Of the forward listener. */
  readonly proxyPort: number
  /** The lines of the proxy so far. */
  readonly log: readonly string[]
  url(scheme: Scheme, host: string, path?: string): string
}

export type Scheme = 'http' | 'https'

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export async function openStage(t: Ending & { after(work: () => Promise<void>): void }): Promise<Stage> {
  const folder = tempDir(t)
  const files = join(folder, 'files')
  mkdirSync(files)
  writeFileSync(join(files, 'greeting'), GREETING)
  writeFileSync(join(folder, 'hosts'), `127.0.0.1 ${ALLOWED} ${DENIED}\n`)
  const { certificate, key } = makeCertificate(folder)
  const serve = fileServer(files)
  const plain = await listen(createServer(serve))
  const secure = await listen(createTlsServer({ cert: readFileSync(certificate), key: readFileSync(key) }, serve))
  const log: string[] = []
  const proxy = await startProxy({
    listen: { host: '127.0.0.1', port: 0 },
    dns: { hostsPath: join(folder, 'hosts') },
    limits: { drainMs: 0 },
    log: (lines) => void log.push(...lines.trimEnd().split('\n')),
  })
  await proxy.sources.set({ ip: '127.0.0.1', id: 'clients', allowlist: [ALLOWED] })
  t.after(async () => {
    await proxy.close()
    for (const { server } of [plain, secure]) {
      server.closeAllConnections()
      server.close()
    }
  })
  const ports = { http: plain.port, https: secure.port }
  return {
    folder,
    files,
    certificate,
    proxyPort: proxy.forward?.port ?? 0,
    log,
    url: (scheme, host, path = '/greeting') => `${scheme}://${host}:${ports[scheme]}${path}`,
  }
}

/** For these names, and its own authority. */
export function makeCertificate(
  folder: string,
  names: readonly string[] = [ALLOWED, DENIED],
): { certificate: string; key: string } {
  const [certificate, key] = [join(folder, 'certificate.pem'), join(folder, 'key.pem')]
  const alternatives = `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`
  const make = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30']
  const about = ['-subj', `/CN=${names[0]}`, '-addext', alternatives, '-out', certificate, '-keyout', key]
  execFileSync('openssl', [...make, ...about], { stdio: 'ignore' })
  return { certificate, key }
}

function fileServer(folder: string): RequestListener {
  return (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://origin')
    try {
      response.end(readFileSync(join(folder, pathname)))
    } catch {
      response.writeHead(404).end('there is no such file\n')
    }
  }
}

async function listen<S extends Server>(server: S): Promise<{ server: S; port: number }> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  return { server, port: address.port }
}

const PATIENCE_MS = 120_000
/** The machine's own programs: what a package brought is not what users have. */
const PATH = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))

/** Runs a client that is told of nothing but the proxy. What it would take from its user's home is not there. */
export function run(stage: Stage, command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const { proxyPort, folder } = stage
  const proxyUrl = `http://127.0.0.1:${proxyPort}`
  const options = {
    cwd: folder,
    timeout: PATIENCE_MS,
    env: {
      PATH: PATH.join(delimiter),
      HOME: folder,
      LC_ALL: 'C.UTF-8',
      http_proxy: proxyUrl,
      https_proxy: proxyUrl,
      ...env,
    },
  }
  return new Promise((resolve) => {
    execFile(command, args, options, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr })
    })
  })
}
