// Follows the settings of .env and of the store while this process runs, so that most changes need no restart.

import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSettings, type SettingDeclarations, type SettingSource, type Settings } from '../../lib/settings.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { readAgentLimits, readTurnRules } from '../settings.ts'

const POLL_MS = 1000

export interface LiveSettingsOptions {
  readonly host: Pick<InstanceHost, 'engine' | 'storedSettings' | 'rules' | 'limits' | 'faults'>
  readonly log: Pick<Log, 'warn'>
  /** .env and the environment; the same list until .env changes. */
  files(): Promise<readonly SettingSource[]>
}

type Follower = (sources: readonly SettingSource[]) => void

export class LiveSettings {
  readonly #options: LiveSettingsOptions
  readonly #followers: Follower[] = []
  readonly #timer: NodeJS.Timeout
  #current: readonly SettingSource[]
  #warned = ''
  #refreshing: Promise<void> | undefined

  private constructor(options: LiveSettingsOptions, sources: readonly SettingSource[]) {
    this.#options = options
    this.#current = sources
    const { host } = options
    this.follow((current) => {
      Object.assign(host.rules, readTurnRules(current))
      Object.assign(host.limits, readAgentLimits(current))
    })
    const refresh = host.faults.guard('job', () => {
      // After a refusal of the store the next poll tries again.
      this.#refreshing = this.sources().then(() => {}, ignoreRefusal)
      return this.#refreshing
    })
    this.#timer = setInterval(refresh, POLL_MS).unref()
  }

  static async open(options: LiveSettingsOptions): Promise<LiveSettings> {
    const sources = await readSources(options)
    return new LiveSettings(options, sources)
  }

  /** The sources as they are now, the first with a value taking precedence. The same list until something changes. */
  async sources(): Promise<readonly SettingSource[]> {
    const sources = await readSources(this.#options)
    if (sources.length === this.#current.length && sources.every((each, at) => each === this.#current[at]))
      return this.#current
    this.#current = sources
    for (const follow of this.#followers) this.#update(follow, sources)
    return sources
  }

  /** Calls back with each change. */
  follow(follower: Follower): void {
    this.#followers.push(follower)
  }

  /** Keeps the values that need no restart current, in place. */
  followValues<D extends SettingDeclarations>(declared: D, values: Settings<D>): void {
    const changing = Object.fromEntries(Object.entries(declared).filter(([, { change }]) => change === 'live'))
    this.follow((sources) => {
      Object.assign(values, readSettings(changing, sources))
    })
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#refreshing
  }

  /** After an error the last valid values stay in use. */
  #update(follower: Follower, sources: readonly SettingSource[]): void {
    try {
      follower(sources)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      if (error.message !== this.#warned)
        this.#options.log.warn(`invalid settings, the previous ones stay in use: ${error.message}`)
      this.#warned = error.message
    }
  }
}

function ignoreRefusal(error: unknown): void {
  if (!(error instanceof Refusal)) throw error
}

async function readSources({ host, files }: LiveSettingsOptions): Promise<readonly SettingSource[]> {
  const [stored, others] = await Promise.all([host.engine.read((tx) => host.storedSettings.read(tx)), files()])
  return [stored, ...others]
}
