// Starts the program of an adapter: little memory, and nothing of the environment that is a secret of the instance.
import { type ChildProcess, spawn } from 'node:child_process'
import { ADAPTER_ENTRY } from '../../channels/index.ts'
import { readEnvironment } from '../../lib/environment.ts'

/** A leak ends the adapter alone, and garbage is collected early. */
const MEMORY_FLAGS = ['--max-old-space-size=256', '--max-semi-space-size=2']

const PASSED_VARIABLES = [
  ...['PATH', 'HOME', 'TZ', 'LANG', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'NODE_USE_ENV_PROXY'],
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy', 'NODE_COMPILE_CACHE'],
]

/** It stops when its standard input ends. */
export function spawnAdapter(config: object, logTo: 'inherit' | 'ignore'): ChildProcess {
  const given = PASSED_VARIABLES.map((name) => [name, readEnvironment(name)] as const)
  const child = spawn(process.execPath, [...MEMORY_FLAGS, ADAPTER_ENTRY], {
    env: Object.fromEntries(given.filter(([, value]) => value !== undefined)),
    stdio: ['pipe', 'pipe', logTo],
  })
  // A process that ends before it reads is reported by its end.
  child.stdin?.on('error', () => undefined)
  child.stdin?.write(`${JSON.stringify(config)}\n`)
  return child
}
