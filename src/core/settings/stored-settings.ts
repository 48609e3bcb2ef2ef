// Settings in the store, which take precedence over .env. See docs/decisions.md#settings-in-the-store.
import { z } from 'zod'
import { Refusal } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { settingsStamp } from '../change-stamps.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { SEALED } from '../secrets/model-keys.ts'
import { Bytes, EnvValue, Timestamp } from '../values.ts'

const VALUE_MAX = 16_384

export const StoredSetting = z.object({
  key: z.string().regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'must be the name of a setting, such as OPENAI_MODEL'),
  value: EnvValue.refine((text) => text.length <= VALUE_MAX, `is longer than ${VALUE_MAX} characters`).describe(
    `The word ${SEALED} if the value is encrypted`,
  ),
  sealed: Bytes.optional().meta({ writeOnly: true }),
  updated_at: Timestamp.meta({ readOnly: true }),
})
export type StoredSetting = z.output<typeof StoredSetting>

export const storedSettings = new Table({
  name: 'settings',
  row: StoredSetting,
  key: 'key',
  storage: [
    'create table settings (key text primary key, value text not null, sealed bytea, updated_at text not null)',
    ...settingsStamp.createStatements(),
    settingsStamp.updateOnWrite('settings'),
  ],
})

/** What the declarations say about a setting. */
export interface SettingRules {
  /** Why this text cannot be stored for this key; undefined if it can. */
  fault(key: string, text: string): string | undefined
  isSecret(key: string, text: string): boolean
}

/** Binds the seal, so that a value cannot be moved to another setting. */
export function settingContext(key: string): string {
  return `setting ${key}`
}

/** Reads the settings of the store; the same source until one changes. */
export class StoredSettingsReader {
  readonly #keyring: Keyring
  readonly #rules: SettingRules
  #stamp: string | undefined
  #current: StoredSettingsSource | undefined

  constructor(keyring: Keyring, rules: SettingRules) {
    this.#keyring = keyring
    this.#rules = rules
  }

  async read(tx: Tx): Promise<StoredSettingsSource> {
    const stamp = await settingsStamp.read(tx)
    if (!this.#current || stamp !== this.#stamp) {
      this.#current = openSettings(await storedSettings.list(tx), this.#keyring, this.#rules)
      this.#stamp = stamp
    }
    return this.#current
  }
}

export interface StoredSettingsSource extends SettingSource {
  /** Why rows are not used. */
  readonly faults: readonly string[]
}

export const STORE_SOURCE = 'the store'

/** Rows that another version or key has written, and that this one cannot use, do not apply. */
function openSettings(rows: readonly StoredSetting[], keyring: Keyring, rules: SettingRules): StoredSettingsSource {
  const entries = new Map<string, string>()
  const faults: string[] = []
  for (const { key, value, sealed } of rows)
    try {
      // A word without bytes is that of a model key, or was applied from an export.
      const text = sealed && value === SEALED ? keyring.open(sealed, settingContext(key)).toString() : value
      const fault = rules.fault(key, text)
      if (fault === undefined) entries.set(key, text)
      else faults.push(`${key} in the store is not used: ${fault}`)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      faults.push(`${key} in the store is not used: ${error.message}`)
    }
  return { name: STORE_SOURCE, get: (key) => entries.get(key), keys: () => entries.keys(), faults }
}
