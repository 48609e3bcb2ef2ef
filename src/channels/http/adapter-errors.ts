// Errors of an adapter as agents and chats may see them: without the address of the adapter, which is for operators alone.
import { ChannelError } from '../../core/delivery/channel.ts'
import { Refusal } from '../../lib/refusal.ts'

interface NamedAdapter {
  readonly name: string
  readonly url: string
}

/** The same error with the adapter's name in place of its address. Errors of other kinds are bugs and stay as they are. */
export function redactAddress(error: unknown, adapter: NamedAdapter): unknown {
  const hidden = (text: string): string =>
    spellingsOf(adapter).reduce((rest, spelling) => rest.replaceAll(spelling, adapter.name), text)
  if (error instanceof ChannelError) return new ChannelError(error.kind, hidden(error.message), error.retryAfterMs)
  if (error instanceof Refusal) return new Refusal(error.code, hidden(error.message), error.hint && hidden(error.hint))
  return error
}

/** The longest first, so that no part of an address is left. */
function spellingsOf({ url }: NamedAdapter): string[] {
  const { origin, host, hostname, port } = new URL(url)
  const address = hostname.replace(/^\[|\]$/g, '')
  // A plain word such as `localhost` tells nothing without its port.
  const isTelling = /[.:]/.test(address)
  return [url, origin, host, ...(port === '' ? [] : [`${address}:${port}`]), ...(isTelling ? [hostname, address] : [])]
}
