// Checks adapter URLs: by default only loopback and private addresses, so that the channel secret cannot be used to make the
// instance send requests to any server (SSRF).
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isPrivateAddress } from '../../channels/address-policy.ts'
import { refuse } from '../../lib/refusal.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'

/** The normalized URL without trailing slashes. */
export async function adapterUrl(text: string, isPublicAllowed: boolean): Promise<string> {
  const url = URL.parse(text)
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    refuse('invalid', 'url must start with http:// or https:// (bad_request)')
  if (url.username || url.password || url.search || url.hash)
    refuse('invalid', 'url must have no user, query or fragment (bad_request)')
  if (!isPublicAllowed) await mustBePrivate(url.hostname.replace(/^\[|\]$/g, ''))
  return trimTrailing(url.href, '/')
}

async function mustBePrivate(host: string): Promise<void> {
  const addresses = isIP(host) ? [host] : await addressesOf(host)
  if (addresses.every(isPrivateAddress)) return
  refuse(
    'invalid',
    'url must be on a loopback or private address (bad_request)',
    'set CHANNEL_REGISTER_ALLOW_PUBLIC=true in .env to allow public addresses',
  )
}

async function addressesOf(host: string): Promise<string[]> {
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address)
  } catch {
    return refuse('invalid', `cannot resolve the host of url, ${host.slice(0, 100)} (bad_request)`)
  }
}
