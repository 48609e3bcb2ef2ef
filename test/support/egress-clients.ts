// Shared by the tests of real clients: an HTTP and an HTTPS origin, a proxy, and clients that are configured by environment
// variables.
import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { delimiter, join } from 'node:path'
import { startProxy } from '../../src/egress/proxy.ts'
import { type CleanupScope, tempDir } from './temp.ts'

export const ALLOWED = 'allowed.test'
export const DENIED = 'denied.test'
export const GREETING = 'hello from the origin\n'

export interface ClientFixture {
  readonly folder: string
  /** Served at the root of both origins. */
  readonly files: string
  /** The self-signed certificate of both names. */
  readonly certificate: string
  /** Port of the forward listener. */
  readonly proxyPort: number
  /** The log lines of the proxy so far. */
  readonly log: readonly string[]
  url(scheme: Scheme, host: string, path?: string): string
}

export type Scheme = 'http' | 'https'

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export async function openClientFixture(
  t: CleanupScope & { after(work: () => Promise<void>): void },
): Promise<ClientFixture> {
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

/** Creates a self-signed certificate for these names. */
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
      const isPage = pathname.startsWith('/simple/')
      if (isPage) response.setHeader('Content-Type', 'text/html')
      response.end(readFileSync(join(folder, pathname, isPage ? 'index.html' : '')))
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

const PATIENCE_MS = 5 * 60_000
/** Only programs of the machine, not those of npm packages. */
const PATH = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))

/** Runs a client with only the proxy settings, and with an empty home directory. */
export function run(
  stage: ClientFixture,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ran> {
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

/** The npm registry document of a package, and a git repository in plain files. */
export function publish({ folder, files }: ClientFixture): void {
  const version = { name: 'a-package', version: '1.2.3', dist: { tarball: 'http://nowhere.test/', shasum: '' } }
  const packument = { name: 'a-package', 'dist-tags': { latest: '1.2.3' }, versions: { '1.2.3': version } }
  writeFileSync(join(files, 'a-package'), JSON.stringify(packument))
  const work = join(folder, 'work')
  const env = { PATH: process.env.PATH, HOME: folder, GIT_CONFIG_NOSYSTEM: '1' }
  const git = (...args: string[]): unknown => execFileSync('git', args, { stdio: 'ignore', cwd: folder, env })
  git('init', '-b', 'main', work)
  git('-C', work, '-c', 'user.name=a', '-c', 'user.email=a@a.test', 'commit', '--allow-empty', '-m', 'a commit')
  git('clone', '--bare', work, join(files, 'repository.git'))
  git('-C', join(files, 'repository.git'), 'update-server-info')
}

/** The Java runtime of Debian can run a program from its source. */
export const JAVA_CLIENT = `
import java.io.*;
import java.net.*;
import java.security.*;
import java.security.cert.*;
import javax.net.ssl.*;

public class Ask {
  public static void main(String[] args) throws Exception {
    var trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null);
    try (var file = new FileInputStream(args[0])) {
      trusted.setCertificateEntry("origin", CertificateFactory.getInstance("X.509").generateCertificate(file));
    }
    var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    var tls = SSLContext.getInstance("TLS");
    tls.init(null, trust.getTrustManagers(), null);
    HttpsURLConnection.setDefaultSSLSocketFactory(tls.getSocketFactory());
    for (int at = 1; at < args.length; at++) {
      var connection = (HttpURLConnection) new URL(args[at]).openConnection();
      try {
        System.out.println(connection.getResponseCode() + " " + connection.getResponseMessage());
      } catch (IOException error) {
        System.out.println(error.getMessage());
      }
    }
  }
}
`
