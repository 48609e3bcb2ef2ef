// The script of pages with passkeys, which all other pages do without.
import { buildScript, wrapInFunction } from '../chat/script.ts'

export function buildPasskeyScript(): { headers: Record<string, string>; body: string } {
  const headers = { 'Content-Type': 'text/javascript; charset=utf-8', 'X-Robots-Tag': 'noindex' }
  return { headers, body: wrapInFunction(buildScript('passkey'), {}) }
}
