// Fetches the files of messages from Discord's file servers.
import { readAtMost } from '../process/file-downloads.ts'
import { type AccountAccess, PlatformError } from '../process/port.ts'
import { discordRootOf } from './discord-api.ts'
import type { DiscordFile } from './discord-events.ts'

const HOSTS = new Set(['cdn.discordapp.com', 'media.discordapp.net'])

/** Undefined if Discord does not give the file, or it is larger. The addresses need no token. */
export async function fetchDiscordFile(
  access: Pick<AccountAccess, 'apiUrl'>,
  { url }: DiscordFile,
  max: number,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  if (!isOfDiscord(url, access)) return undefined
  const response = await fetch(url, { signal, redirect: 'error' })
  if (response.ok) return readAtMost(response, max)
  await response.body?.cancel()
  if (response.status < 500 && response.status !== 429) return undefined
  throw new PlatformError('unavailable', `Discord answers with status ${response.status}`)
}

/** An event could name any other address. */
function isOfDiscord(url: string, access: Pick<AccountAccess, 'apiUrl'>): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname, origin } = new URL(url)
  if (protocol === 'https:' && HOSTS.has(hostname)) return true
  return access.apiUrl !== undefined && origin === new URL(discordRootOf(access)).origin
}
