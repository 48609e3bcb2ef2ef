// The settings that a turn starts with. They are read again when .env or a sealed key has changed, so that another model needs
// no restart. What cells are made with stays as it was at the start of the process.
import { createHash } from 'node:crypto'
import { CELL_SETTINGS } from '../../cell/settings.ts'
import { type ModelKey, modelKeys } from '../../core/model-keys.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSettings, type Source } from '../../lib/settings.ts'
import type { Host } from '../../registry/context.ts'
import { hasSealedKeys, openSealedKeys } from '../../runtimes/sealed-keys.ts'
import { RUNTIME_SETTINGS, type RuntimeSettings } from '../../runtimes/settings.ts'

export interface CurrentSettingsOptions {
  readonly host: Pick<Host, 'engine' | 'keyring'>
  readonly initial: RuntimeSettings
  /** The same list as long as nothing has changed. */
  sources(): Promise<readonly Source[]>
  warn(sentence: string): void
}

export interface MarkedSettings {
  /** The same object as long as nothing has changed. */
  readonly settings: RuntimeSettings
  /** Another one for other settings. */
  readonly mark: string
}

export class CurrentSettings {
  readonly #options: CurrentSettingsOptions
  #sources: readonly Source[] | undefined
  #written: RuntimeSettings
  #current: MarkedSettings | undefined
  #fault = ''

  constructor(options: CurrentSettingsOptions) {
    this.#options = options
    this.#written = options.initial
  }

  async read(): Promise<MarkedSettings> {
    const { host, warn } = this.#options
    await this.#reread()
    const rows = hasSealedKeys(this.#written) ? await host.engine.read((tx) => modelKeys.list(tx)) : []
    const mark = markOf(this.#written, rows)
    if (this.#current?.mark !== mark)
      this.#current = { mark, settings: openSealedKeys(this.#written, rows, host.keyring, warn) }
    return this.#current
  }

  /** A file with a mistake in it changes nothing: turns go on with the last settings that could be read. */
  async #reread(): Promise<void> {
    try {
      const sources = await this.#options.sources()
      if (sources === this.#sources) return
      this.#written = { ...readSettings(RUNTIME_SETTINGS, sources), ...this.#cells() }
      this.#sources = sources
      this.#fault = ''
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      if (error.message !== this.#fault) this.#options.warn(`changed settings are not used: ${error.message}`)
      this.#fault = error.message
    }
  }

  #cells(): Partial<RuntimeSettings> {
    const { initial } = this.#options
    return Object.fromEntries(Object.entries(initial).filter(([key]) => Object.hasOwn(CELL_SETTINGS, key)))
  }
}

function markOf(settings: RuntimeSettings, rows: readonly ModelKey[]): string {
  const hash = createHash('sha256').update(JSON.stringify(settings))
  for (const { variable, value } of rows) hash.update(`\n${variable} `).update(value)
  return hash.digest('base64url')
}
