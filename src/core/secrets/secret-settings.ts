// Which settings have a secret value, by name and by value: packages and providers bring names that nothing declares.
import { redact } from '../../lib/log/redact.ts'
import { isSecretKey } from '../../lib/settings.ts'
import { SEALED } from './model-keys.ts'

const SECRET_NAME = /SECRET|TOKEN|PASS|PWD|CREDENTIAL|BEARER|AUTH|PRIVATE|(^|_)(KEY|PAT)(_|$)/i

export function isSecretSetting(key: string, value: string): boolean {
  if (value === '' || value === SEALED || /_(FILE|PATH|DIR)$/i.test(key)) return false
  if (key === 'DATABASE_URL' || SECRET_NAME.test(key)) return true
  // A URL is secret if it has a password or a query; any other text if it contains a credential.
  return (
    (isSecretKey(key) && !key.toUpperCase().endsWith('URL')) ||
    value.split('://').some((part, at) => at > 0 && (part.includes('?') || /^[^/]*@/.test(part))) ||
    redact(value) !== value
  )
}
