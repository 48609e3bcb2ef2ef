// Settings of the store that cannot be used, or that hide another value in .env.
import { STORE_SOURCE, type StoredSettingsSource } from '../../core/settings/stored-settings.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { listSettingsInForce } from '../settings-in-force.ts'
import { asNote, type DoctorFinding, makeFinding } from './findings.ts'

const CHECK = 'stored settings'

/** `sources` include the store. */
export function checkStoredSettings(
  stored: StoredSettingsSource,
  sources: readonly SettingSource[],
  instance: string,
): DoctorFinding {
  if (stored.faults.length > 0)
    return makeFinding(CHECK, [...stored.faults], '', `svc settings ${instance} unset <key>, or set it again`)
  const hidden = listSettingsInForce(sources).filter(({ origin, overrides }) => origin === STORE_SOURCE && overrides)
  const faults = hidden.map(
    ({ key, overrides }) => `${key} in ${overrides} does not count: the store has another value`,
  )
  const count = [...(stored.keys?.() ?? [])].length
  const next = `svc settings ${instance} unset ${hidden[0]?.key}`
  return asNote(makeFinding(CHECK, faults, count === 0 ? 'there are none' : `all can be used (${count})`, next))
}
