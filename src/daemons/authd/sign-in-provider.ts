// The port of providers that people sign in with: an attempt becomes a URL at the provider, and its callback an account.
import type { ConfirmedAccount } from '../../core/people/accounts.ts'
import type { ProviderAttempt } from './provider-attempt.ts'

export interface SignInProvider {
  /** Lower case, in paths and as method of a session. */
  readonly name: string
  /** As people know it. */
  readonly title: string
  authorizationUrl(attempt: ProviderAttempt, redirectUri: string): Promise<URL>
  /** `callback`: the public URL of the callback with the query that the browser brought. */
  confirm(attempt: ProviderAttempt, callback: URL): Promise<ConfirmedAccount>
}

export type SignInProviders = ReadonlyMap<string, SignInProvider>
