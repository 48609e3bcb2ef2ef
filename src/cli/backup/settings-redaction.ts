// Removes secrets from settings files. The result names the missing keys, so that `svc restore` and `svc doctor` can list them.
import { SEALED } from '../../core/secrets/model-keys.ts'
import { redact } from '../../lib/log/redact.ts'
import { isSecretKey } from '../../lib/settings.ts'
import { formatDotenv, parseDotenv } from '../../lib/text/dotenv.ts'

interface RedactedSettings {
  readonly text: string
  readonly leftOut: readonly string[]
}

const SECRET_NAME = /SECRET|TOKEN|PASS|PWD|CREDENTIAL|BEARER|AUTH|PRIVATE|(^|_)(KEY|PAT)(_|$)/i
const LEFT_OUT = /^# ([A-Za-z_][A-Za-z0-9_]*) was left out of the backup/gm

/** Drops secrets, and comments, which may contain secrets. */
export function redactSettings(text: string, source: string): RedactedSettings {
  const entries = [...parseDotenv(text, source)]
  const leftOut = entries.filter(([key, value]) => isSecret(key, value)).map(([key]) => key)
  const kept = entries.filter(([key]) => !leftOut.includes(key))
  const notes = leftOut.map((key) => `# ${key} was left out of the backup: write ${key}=… here\n`)
  return { text: formatDotenv(kept) + notes.join(''), leftOut }
}

function isSecret(key: string, value: string): boolean {
  if (value === '' || value === SEALED || /_(FILE|PATH|DIR)$/i.test(key)) return false
  if (key === 'DATABASE_URL' || SECRET_NAME.test(key)) return true
  // A URL is secret if it has a password or a query; any other text if it contains a credential.
  return (
    (isSecretKey(key) && !key.toUpperCase().endsWith('URL')) ||
    /:\/\/[^/]*@|:\/\/.*\?/.test(value) ||
    redact(value) !== value
  )
}

/** Left-out keys that the operator has not added to a restored file. */
export function missingKeys(text: string, source: string): string[] {
  if (!text.includes(' was left out of the backup')) return []
  const known = parseDotenv(text, source)
  return [...text.matchAll(LEFT_OUT)].flatMap(([, key = '']) => (known.has(key) ? [] : [key]))
}
