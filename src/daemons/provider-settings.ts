// Settings of providers that people sign in with: OIDC_<NAME>_ISSUER|ID|SECRET, GITHUB_ID|SECRET and DISCORD_ID|SECRET. Half a
// provider stops the start: people would look for its button. Values are never part of a message, since they may be secret.
import { refuse } from '../lib/refusal.ts'
import type { SettingSource } from '../lib/settings.ts'
import { isOpenIdKey } from './settings.ts'

export interface ClientCredentials {
  readonly id: string
  readonly secret: string
}

export interface OpenIdSettings extends ClientCredentials {
  /** Lower case; part of subs and of the redirect URI. */
  readonly name: string
  readonly issuer: URL
}

export interface ProviderSettings {
  readonly github?: ClientCredentials | undefined
  readonly discord?: ClientCredentials | undefined
  readonly openId: readonly OpenIdSettings[]
}

const BUILT_IN = ['github', 'discord'] as const
const NAME = /^[A-Z][A-Z0-9]{0,31}$/

/** Refuses with the key of the first setting that is missing or not valid. */
export function readProviderSettings(sources: readonly SettingSource[]): ProviderSettings {
  const read = (key: string): string =>
    sources.map((source) => source.get(key)).find((text) => text !== undefined) ?? ''
  const [github, discord] = BUILT_IN.map((name) => readCredentials(read, name.toUpperCase(), []))
  const openId = openIdNames(sources).flatMap((name) => readOpenId(read, name) ?? [])
  for (const { name } of openId)
    if ((name === 'github' && github) || (name === 'discord' && discord))
      refuse(
        'invalid',
        `OIDC_${name.toUpperCase()}_ID and ${name.toUpperCase()}_ID configure two providers named ${name}`,
        'give the OpenID provider another name',
      )
  return { github, discord, openId }
}

function openIdNames(sources: readonly SettingSource[]): string[] {
  const keys = sources.flatMap((source) => [...(source.keys?.() ?? [])].filter(isOpenIdKey))
  for (const key of keys)
    if (!NAME.test(nameInKey(key)))
      refuse(
        'invalid',
        `${key.slice(0, 80)}: the name between OIDC_ and _${key.slice(key.lastIndexOf('_') + 1)} must be a capital letter and up to 31 capital letters and digits`,
      )
  return [...new Set(keys.map(nameInKey))].sort()
}

function nameInKey(key: string): string {
  return key.slice('OIDC_'.length, key.lastIndexOf('_'))
}

function readOpenId(read: (key: string) => string, name: string): OpenIdSettings | undefined {
  const issuerKey = `OIDC_${name}_ISSUER`
  const credentials = readCredentials(read, `OIDC_${name}`, [issuerKey])
  return credentials && { name: name.toLowerCase(), issuer: parseIssuer(issuerKey, read(issuerKey)), ...credentials }
}

/** Undefined if none of the keys has a value. */
function readCredentials(
  read: (key: string) => string,
  prefix: string,
  others: readonly string[],
): ClientCredentials | undefined {
  const keys = [...others, `${prefix}_ID`, `${prefix}_SECRET`]
  const missing = keys.find((key) => read(key).trim() === '')
  const present = keys.find((key) => read(key).trim() !== '')
  if (present === undefined) return undefined
  if (missing !== undefined)
    refuse('invalid', `${missing} is missing: ${present} is set, and the provider needs ${keys.join(', ')}`)
  return { id: read(`${prefix}_ID`).trim(), secret: read(`${prefix}_SECRET`).trim() }
}

/** HTTP is accepted on this machine only: the client secret must not be readable on the way. */
function parseIssuer(key: string, text: string): URL {
  const url = URL.parse(text.trim())
  const isSecure = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  if (!url || !isSecure || url.username || url.password || url.search || url.hash)
    refuse(
      'invalid',
      `${key} must be the https URL of an OpenID issuer, without user, query and fragment`,
      'for example https://accounts.google.com',
    )
  return url
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
