// Subs and texts of accounts from what a provider says about them.
import { codePoints, withoutControl } from '../../core/values.ts'
import { refuse } from '../../lib/refusal.ts'

const SUB_MAX = 256
const TEXT_MAX = 256

/** `oidc:<provider>/<subject>`; other characters than these are percent-encoded, so that each subject has one sub. */
export function openIdSub(provider: string, subject: string): string {
  const encoded = subject.replace(/[^A-Za-z0-9._~@|=+-]/gu, (character) => {
    const bytes = Buffer.from(character).toString('hex').toUpperCase()
    return bytes.replace(/../g, '%$&')
  })
  const sub = `oidc:${provider}/${encoded}`
  if (subject === '' || !subject.isWellFormed() || codePoints(subject) > SUB_MAX || sub.length > SUB_MAX)
    refuse('unprocessable', `the provider ${provider} sent an empty, too long or invalid subject`)
  return sub
}

/** A name or e-mail address for display. Undefined if there is none; an address that was cut would be another one. */
export function accountText(value: unknown): string | undefined {
  if (typeof value !== 'string' || !value.isWellFormed() || codePoints(value) > TEXT_MAX) return undefined
  return (
    withoutControl(value)
      .replace(/[\t\n]/g, ' ')
      .trim() || undefined
  )
}
