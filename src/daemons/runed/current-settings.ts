// The runtime settings of a new turn. They are reread when .env or a sealed key changes, so that another model needs no
// restart. Settings of cells do not change while the process runs.
import { createHash } from 'node:crypto'
import { CELL_SETTINGS } from '../../cell/settings.ts'
import { type ModelKey, modelKeys } from '../../core/secrets/model-keys.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { hasSealedKeys, openSealedKeys } from '../../runtimes/sealed-keys.ts'
import { RUNTIME_SETTINGS, type RuntimeSettings } from '../../runtimes/settings.ts'

export interface CurrentSettingsOptions {
  readonly host: Pick<InstanceHost, 'engine' | 'keyring'>
  readonly initial: RuntimeSettings
  /** Returns the same list until something changes. */
  sources(): Promise<readonly SettingSource[]>
  warn(message: string): void
}

export interface MarkedSettings {
  /** The same object until something changes. */
  readonly settings: RuntimeSettings
  /** Fingerprint of the settings. */
  readonly mark: string
}

export class CurrentSettings {
  readonly #options: CurrentSettingsOptions
  #sources: readonly SettingSource[] | undefined
  #plain: RuntimeSettings
  #current: MarkedSettings | undefined
  #hashed: { readonly settings: RuntimeSettings; readonly hash: string } | undefined
  #fault = ''

  constructor(options: CurrentSettingsOptions) {
    this.#options = options
    this.#plain = options.initial
  }

  async read(): Promise<MarkedSettings> {
    const { host, warn } = this.#options
    await this.#reread()
    const rows = hasSealedKeys(this.#plain) ? await host.engine.read((tx) => modelKeys.list(tx)) : []
    const mark = markOf(this.#hashOf(this.#plain), rows)
    if (this.#current?.mark !== mark)
      this.#current = { mark, settings: openSealedKeys(this.#plain, rows, host.keyring, warn) }
    return this.#current
  }

  /** After an error the last valid settings stay in use. */
  async #reread(): Promise<void> {
    try {
      const sources = await this.#options.sources()
      if (sources === this.#sources) return
      this.#plain = { ...readSettings(RUNTIME_SETTINGS, sources), ...this.#cellSettings() }
      this.#sources = sources
      this.#fault = ''
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      if (error.message !== this.#fault)
        this.#options.warn(`invalid settings, the previous ones stay in use: ${error.message}`)
      this.#fault = error.message
    }
  }

  #hashOf(settings: RuntimeSettings): string {
    if (this.#hashed?.settings !== settings)
      this.#hashed = { settings, hash: createHash('sha256').update(JSON.stringify(settings)).digest('base64url') }
    return this.#hashed.hash
  }

  #cellSettings(): Partial<RuntimeSettings> {
    const { initial } = this.#options
    return Object.fromEntries(Object.entries(initial).filter(([key]) => Object.hasOwn(CELL_SETTINGS, key)))
  }
}

function markOf(settingsHash: string, rows: readonly ModelKey[]): string {
  if (rows.length === 0) return settingsHash
  const hash = createHash('sha256').update(settingsHash)
  for (const { variable, value } of rows) hash.update(`\n${variable} `).update(value)
  return hash.digest('base64url')
}
