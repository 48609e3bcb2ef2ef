// Removes secrets from settings files. The result names the missing keys, so that `svc restore` and `svc doctor` can list them.
import { isSecretSetting } from '../../core/secrets/secret-settings.ts'
import { formatDotenv, parseDotenv } from '../../lib/text/dotenv.ts'

interface RedactedSettings {
  readonly text: string
  readonly leftOut: readonly string[]
}

const LEFT_OUT = /^# ([A-Za-z_][A-Za-z0-9_]*) was left out of the backup/gm

/** Drops secrets, and comments, which may contain secrets. */
export function redactSettings(text: string, source: string): RedactedSettings {
  const entries = [...parseDotenv(text, source)]
  const leftOut = entries.filter(([key, value]) => isSecretSetting(key, value)).map(([key]) => key)
  const kept = entries.filter(([key]) => !leftOut.includes(key))
  const notes = leftOut.map((key) => `# ${key} was left out of the backup: write ${key}=… here\n`)
  return { text: formatDotenv(kept) + notes.join(''), leftOut }
}

/** Left-out keys that the operator has not added to a restored file. */
export function missingKeys(text: string, source: string): string[] {
  if (!text.includes(' was left out of the backup')) return []
  const known = parseDotenv(text, source)
  return [...text.matchAll(LEFT_OUT)].flatMap(([, key = '']) => (known.has(key) ? [] : [key]))
}
