// Providers that people sign in with. Each turns an attempt into a URL at the provider, and its callback into an account.
import type { ConfirmedAccount } from '../../core/people/accounts.ts'
import type { Clock } from '../../lib/clock.ts'
import { openDiscord, openGithub } from './oauth-providers.ts'
import { openOpenIdProvider } from './openid-provider.ts'
import type { ProviderAttempt } from './provider-attempt.ts'
import type { ProviderSettings } from './provider-settings.ts'

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

export function openProviders({ github, discord, openId }: ProviderSettings, clock: Clock): SignInProviders {
  const providers = [
    ...openId.map((settings) => openOpenIdProvider(settings, clock)),
    ...(github ? [openGithub(github)] : []),
    ...(discord ? [openDiscord(discord)] : []),
  ]
  return new Map(providers.map((provider) => [provider.name, provider]))
}
