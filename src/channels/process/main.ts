// The process of one adapter. svc starts it with the configuration on standard input and ends it by closing that. An exception that
// nothing catches ends it, and svc starts it again: what it has not stored, the platform delivers again.
import { getPriority, setPriority } from 'node:os'
import { extname } from 'node:path'
import { FAULT_EXIT_CODE, guard } from '../../lib/fault-boundary.ts'
import { openLog, openLogStream } from '../../lib/log/log.ts'
import { type AccountConfig, type CheckConfig, readAccountConfig } from './account-config.ts'
import type { ReportedHealth } from './adapter-requests.ts'
import { capabilitiesOf } from './adapter-requests.ts'
import { openAdapterServer } from './adapter-server.ts'
import { AdapterStore } from './adapter-store.ts'
import { HostClient, StoppedError } from './host-client.ts'
import { hideSecrets } from './log-secrets.ts'
import { type ConnectorModule, PlatformError } from './port.ts'

/** Exit code of an account that the platform does not accept: starting it again soon is useless. */
const REFUSED_EXIT_CODE = 78
const CLOSE_MS = 5000
/** Links of svc answer while an adapter is busy. */
const NICE = 5
/** svc ends an adapter that gives no sign of life for a minute. */
const ALIVE_MS = 1000
/** npm leaves out optional packages that do not run on the Node that it runs on. */
const MISSING_PACKAGE = 'a package of the adapter is not installed: install svc again with npm on Node 22 or newer'

const stop = new AbortController()

async function main(): Promise<void> {
  setPriority(Math.max(getPriority(), NICE))
  setInterval(() => process.stdout.write('\n'), ALIVE_MS).unref()
  const config = await readAccountConfig(process.stdin, () => stop.abort())
  if ('isCheck' in config) return answerCheck(config)
  const to = hideSecrets(await openLogStream(), [config.secret, ...Object.values(config.secrets)])
  const log = (await openLog({ level: config.logLevel ?? 'info', to })).child({ adapter: config.account })
  const fail = (error: unknown): void => {
    if (error instanceof StoppedError || stop.signal.aborted) return
    log.error({ err: error }, 'the adapter ends after an error')
    process.exit(error instanceof PlatformError && error.kind === 'refused' ? REFUSED_EXIT_CODE : FAULT_EXIT_CODE)
  }
  process.on('uncaughtException', fail)
  process.on('unhandledRejection', fail)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop.abort())
  await runAdapter(config, log, fail).catch(fail)
}

/** Writes one line of JSON. No secret is in it: only errors of the platform are shown. */
async function answerCheck({ platform, settings, secrets, apiUrl }: CheckConfig): Promise<void> {
  const access = { settings, secrets, apiUrl, signal: stop.signal }
  const answer = await loadConnector(platform)
    .then(({ checkAccount }) => checkAccount(access))
    .then(
      (check) => ({ check }),
      (error) => ({ fault: error instanceof PlatformError ? error.message : 'the adapter failed' }),
    )
  process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0))
}

async function runAdapter(
  config: AccountConfig,
  log: Awaited<ReturnType<typeof openLog>>,
  fail: (error: unknown) => void,
): Promise<void> {
  const { account, directory, settings, secrets, apiUrl, webhookUrl, hostUrl, secret, host } = config
  const { signal } = stop
  const now = (): number => Date.now()
  const state = new AdapterStore(directory, now)
  let health: ReportedHealth = { status: 'connecting', since: new Date(now()).toISOString() }
  let client: HostClient | undefined
  const { openConnector } = await loadConnector(config.platform)
  const connector = await openConnector({
    account,
    settings,
    secrets,
    apiUrl,
    webhookUrl,
    state,
    log,
    now,
    signal,
    receive: async (event) => {
      await ready.promise
      if (!client) throw new StoppedError()
      return client.receive(event)
    },
    setHealth: (status, detail) => {
      if (status === health.status && detail === health.detail) return
      if (status !== health.status) log.info({ status, detail }, 'the connection to the platform has changed')
      const since = status === health.status ? health.since : new Date(now()).toISOString()
      health = { status, detail, since }
    },
    guard: (callback) => guard(fail, callback),
  })
  const server = await openAdapterServer({
    connector,
    state,
    account,
    directory,
    host,
    health: () => health,
    token: () => client?.token,
    onFault: (error) => log.error({ err: error }, 'a request of svc failed'),
  })
  client = new HostClient({
    hostUrl,
    secret,
    log,
    signal,
    registration: {
      name: account,
      url: server.url,
      jid_prefixes: [`${account}:`],
      capabilities: capabilitiesOf(connector, settings),
    },
  })
  ready.resolve()
  await client.keepRegistered()
  // Not unref: a promise that never settles would end the process with another code.
  setTimeout(() => process.exit(0), CLOSE_MS)
  // Requests that run are answered, so that svc knows what was sent.
  await server.close()
  await connector.close()
  state.close()
  process.exit(0)
}

/** Events that arrive before the registration wait for it. */
const ready = Promise.withResolvers<void>()

/** Loads source or compiled code, whichever this file is. */
async function loadConnector(platform: string): Promise<ConnectorModule> {
  const connector = new URL(`../${platform}/connector${extname(import.meta.url)}`, import.meta.url).href
  return import(connector).catch((error) => {
    throw error.code === 'ERR_MODULE_NOT_FOUND' ? new PlatformError('refused', MISSING_PACKAGE) : error
  })
}

await main()
