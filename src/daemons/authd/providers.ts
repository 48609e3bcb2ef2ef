// Opens the providers of the settings. None is contacted before a person signs in with it.
import type { Clock } from '../../lib/clock.ts'
import type { ProviderSettings } from '../provider-settings.ts'
import { openDiscord, openGithub } from './oauth-providers.ts'
import { openOpenIdProvider } from './openid-provider.ts'
import type { SignInProviders } from './sign-in-provider.ts'

export function openProviders({ github, discord, openId }: ProviderSettings, clock: Clock): SignInProviders {
  const providers = [
    ...openId.map((settings) => openOpenIdProvider(settings, clock)),
    ...(github ? [openGithub(github)] : []),
    ...(discord ? [openDiscord(discord)] : []),
  ]
  return new Map(providers.map((provider) => [provider.name, provider]))
}
