// Origins for sign-in links: browsers allow passkeys on localhost but not on an IP address.
import { trimTrailing } from '../../lib/text/trimming.ts'

const LOCAL_ADDRESSES: readonly string[] = ['127.0.0.1', '[::1]', '0.0.0.0', '[::]']

/** The origin with `localhost` instead of an address of this machine. */
export function localhostUrl(origin: string): string {
  const url = new URL(origin)
  if (LOCAL_ADDRESSES.includes(url.hostname)) url.hostname = 'localhost'
  return `${url.origin}${trimTrailing(url.pathname, '/')}`
}
