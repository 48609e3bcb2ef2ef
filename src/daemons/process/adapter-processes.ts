// Runs the adapters of channel accounts, each in a process of its own: starts, restarts and stops them as the store says. Only one
// process of an instance runs the adapter of an account.
import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import {
  type ChannelAccount,
  channelAccounts,
  leaseAccount,
  openAccountSecrets,
  releaseAccounts,
} from '../../core/delivery/channel-accounts.ts'
import { type ConnectedPlatform, isConnectedPlatform, webhookUrlOf } from '../../core/delivery/platform-accounts.ts'
import { Directory } from '../../lib/files/directory.ts'
import type { Log } from '../../lib/log/log.ts'
import { hasEnded, type ProcessIdentity, processIdentity } from '../../lib/process-identity.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { ADAPTER_SETTINGS, PLATFORM_URL_SETTINGS } from '../settings.ts'
import { spawnAdapter } from './adapter-child.ts'

const TICK_MS = 2000
const LEASE_MS = 15_000
const PAUSE_MS = 1000
const PAUSE_MAX_MS = 60_000
/** An adapter that has run for longer starts again at once. */
const STEADY_MS = 60_000
const STOP_MS = 6000
/** An adapter gives a sign of life every second. */
const SILENCE_MS = 60_000

export interface AdapterProcessesOptions {
  readonly host: InstanceHost
  readonly log: Log
  /** Of routd. */
  readonly hostUrl: string
  /** Base URLs in place of the platforms' own. */
  apiUrlOf(platform: ConnectedPlatform): string | undefined
  /** Under which the other daemons reach this process; only on loopback if undefined. */
  readonly adapterHost?: string | undefined
  /** After which an adapter is killed. */
  readonly silenceMs?: number | undefined
}

const LeaseOwner = z.object({
  machine: z.string(),
  namespace: z.string(),
  pid: z.int(),
  start: z.string(),
}) satisfies z.ZodType<ProcessIdentity>

interface RunningAdapter {
  readonly row: ChannelAccount
  child: ChildProcess | undefined
  startedAt: number
  /** Its last sign of life. */
  heardAt: number
  failures: number
  nextAt: number
}

/** For the process that serves routd; undefined if other daemons run elsewhere and would not reach its adapters. */
export function runAdapters(
  {
    host,
    log,
    sources,
    daemons = [],
  }: Pick<AdapterProcessesOptions, 'host' | 'log'> & {
    readonly sources: readonly SettingSource[]
    /** All of them if empty. */
    readonly daemons?: readonly string[] | undefined
  },
  hostUrl: string | undefined,
): AdapterProcesses | undefined {
  const adapterHost = readSettings(ADAPTER_SETTINGS, sources).ADAPTER_HOST || undefined
  if (hostUrl === undefined || (daemons.length > 0 && adapterHost === undefined)) return undefined
  const adapters = new AdapterProcesses({
    host,
    log,
    hostUrl,
    adapterHost,
    apiUrlOf: (platform) => apiUrlOf(platform, sources),
  })
  adapters.check().catch(host.faults.handler('job'))
  return adapters
}

const API_URLS: Partial<Record<ConnectedPlatform, keyof typeof PLATFORM_URL_SETTINGS>> = {
  telegram: 'TELEGRAM_API_URL',
  slack: 'SLACK_API_URL',
  discord: 'DISCORD_API_URL',
}

/** Base URL in place of the platform's own. */
export function apiUrlOf(platform: ConnectedPlatform, sources: readonly SettingSource[]): string | undefined {
  const name = API_URLS[platform]
  return name === undefined ? undefined : readSettings(PLATFORM_URL_SETTINGS, sources)[name]
}

export class AdapterProcesses {
  readonly #options: AdapterProcessesOptions
  readonly #adapters = new Map<string, RunningAdapter>()
  readonly #identity = processIdentity()
  /** As it is written down. */
  readonly #process = JSON.stringify(this.#identity)
  readonly #timer: NodeJS.Timeout
  #isClosed = false
  #checking: Promise<void> | undefined

  constructor(options: AdapterProcessesOptions) {
    this.#options = options
    this.#timer = setInterval(
      options.host.faults.guard('job', () => this.check()),
      TICK_MS,
    ).unref()
  }

  /** Starts and stops what the store says; calls do not overlap. */
  check(): Promise<void> {
    this.#checking ??= this.#check()
      .catch((error) => {
        if (!(error instanceof Refusal)) this.#options.host.faults.report('job', error)
      })
      .finally(() => {
        this.#checking = undefined
      })
    return this.#checking
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    await this.#checking
    await Promise.all([...this.#adapters.keys()].map((account) => this.#stop(account)))
    await this.#options.host.engine.transaction((tx) => releaseAccounts(tx, this.#process)).catch(() => undefined)
  }

  async #check(): Promise<void> {
    const { engine, clock } = this.#options.host
    const rows = this.#isClosed ? [] : await engine.read((tx) => channelAccounts.list(tx))
    const wanted = new Set<string>()
    for (const row of rows) {
      const known = this.#adapters.get(row.account)
      // An account that was removed and added again has other secrets.
      if (known && !isSameAccount(known.row, row)) continue
      if (await this.#lease(row, clock.now())) wanted.add(row.account)
    }
    for (const account of this.#adapters.keys()) if (!wanted.has(account)) await this.#stop(account)
    for (const row of rows) if (wanted.has(row.account)) await this.#start(row)
  }

  async #lease({ account, leased_by, leased_until }: ChannelAccount, now: number): Promise<boolean> {
    const { engine } = this.#options.host
    const leftMs = leased_until - now
    // Renewed at half time, so that most ticks write nothing.
    if (leased_by === this.#process && leftMs > LEASE_MS / 2 && leftMs <= LEASE_MS) return true
    // A lease that ends much later is of a wrong clock.
    const isOver = leased_by !== undefined && (leftMs > 2 * LEASE_MS || this.#hasEnded(leased_by))
    return engine.transaction((tx) =>
      leaseAccount(tx, account, { process: this.#process, until: now + LEASE_MS, now: isOver ? leased_until : now }),
    )
  }

  #hasEnded(leasedBy: string): boolean {
    const other = LeaseOwner.safeParse(tryParseJson(leasedBy)).data
    return other !== undefined && hasEnded(other, this.#identity)
  }

  async #start(row: ChannelAccount): Promise<void> {
    const { log } = this.#options
    const { account } = row
    const running = this.#adapters.get(account) ?? {
      row,
      child: undefined,
      startedAt: 0,
      heardAt: 0,
      failures: 0,
      nextAt: 0,
    }
    this.#adapters.set(account, running)
    const { silenceMs = SILENCE_MS } = this.#options
    // It loops or is stopped.
    if (running.child && performance.now() - running.heardAt > silenceMs) running.child.kill('SIGKILL')
    if (running.child || performance.now() < running.nextAt || this.#isClosed) return
    try {
      const config = await this.#readConfig(row)
      running.startedAt = performance.now()
      running.heardAt = running.startedAt
      running.child = this.#spawn(running, config)
    } catch (error) {
      this.#onEnd(running, undefined)
      log.error({ adapter: account, err: error }, 'the adapter cannot be started')
    }
  }

  async #readConfig({ account, platform, settings, secrets_sealed }: ChannelAccount): Promise<object> {
    const { host, hostUrl, apiUrlOf, adapterHost } = this.#options
    const { layout, keyring } = host
    if (!layout) throw new Refusal('unavailable', 'adapters need the data directory')
    // A newer version may have added it.
    if (!isConnectedPlatform(platform)) throw new Refusal('invalid', `this version has no adapter for ${platform}`)
    const { channel, platform: secrets } = openAccountSecrets(keyring, { account, secrets_sealed })
    const directory = join(layout.root, 'channels', account)
    await using _parent = await Directory.make(join(layout.root, 'channels'), 0o700)
    await using _own = await Directory.make(directory, 0o700)
    const webhookUrl = webhookUrlOf(host.webBase, account)
    const addresses = { hostUrl, host: adapterHost, apiUrl: apiUrlOf(platform), webhookUrl }
    return { platform, account, settings, secrets, secret: channel, directory, ...addresses }
  }

  #spawn(running: RunningAdapter, config: object): ChildProcess {
    const { host, log } = this.#options
    const { account } = running.row
    const child = spawnAdapter(config, 'inherit')
    const onAlive = (): void => {
      running.heardAt = performance.now()
    }
    child.stdout?.on('data', host.faults.guard('process', onAlive))
    const onEnd = (reason: unknown): void => {
      if (running.child !== child) return
      const pauseMs = this.#onEnd(running, child)
      if (!this.#isClosed && this.#adapters.get(account) === running)
        log.warn({ adapter: account, reason: String(reason), pauseMs }, 'an adapter has ended and is started again')
    }
    child.once(
      'exit',
      host.faults.guard('process', (code, signal) => onEnd(signal ?? `exit code ${code}`)),
    )
    child.once('error', host.faults.guard('process', onEnd))
    log.info({ adapter: account, pid: child.pid }, 'an adapter has started')
    return child
  }

  /** Returns the time until the next start. */
  #onEnd(running: RunningAdapter, child: ChildProcess | undefined): number {
    const isSteady = child !== undefined && performance.now() - running.startedAt > STEADY_MS
    running.failures = isSteady ? 0 : running.failures + 1
    const pauseMs = isSteady ? 0 : Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(running.failures - 1, 10))
    running.nextAt = performance.now() + pauseMs
    running.child = undefined
    return pauseMs
  }

  async #stop(account: string): Promise<void> {
    const running = this.#adapters.get(account)
    this.#adapters.delete(account)
    const child = running?.child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise<void>((resolve) => void child.once('exit', () => resolve()))
    // It ends when its input does.
    child.stdin?.end()
    await Promise.race([ended, pause(STOP_MS, undefined, { ref: false })])
    child.kill('SIGKILL')
    await ended
  }
}

function isSameAccount(one: ChannelAccount, other: ChannelAccount): boolean {
  return one.created_at === other.created_at && JSON.stringify(one.settings) === JSON.stringify(other.settings)
}
