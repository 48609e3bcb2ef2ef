// Removes the address of an adapter from its errors: agents and chats see them, but only operators may see the address.
import { ChannelError } from '../../core/delivery/channel.ts'
import { Refusal } from '../../lib/refusal.ts'

interface NamedAdapter {
  readonly name: string
  readonly url: string
}

/** Replaces the adapter's address with its name. Errors of other types are bugs and stay unchanged. */
export function redactAddress(error: unknown, adapter: NamedAdapter): unknown {
  const redact = (text: string): string =>
    listSpellings(adapter).reduce((rest, spelling) => rest.replaceAll(spelling, adapter.name), text)
  if (error instanceof ChannelError) return new ChannelError(error.kind, redact(error.message), error.retryAfterMs)
  if (error instanceof Refusal) return new Refusal(error.code, redact(error.message), error.hint && redact(error.hint))
  return error
}

/** Longest first, so that no part of an address remains. */
function listSpellings({ url }: NamedAdapter): string[] {
  const { origin, host, hostname, port } = new URL(url)
  const address = hostname.replace(/^\[|\]$/g, '')
  // A plain word such as `localhost` reveals nothing without its port.
  const isAddress = /[.:]/.test(address)
  return [url, origin, host, ...(port === '' ? [] : [`${address}:${port}`]), ...(isAddress ? [hostname, address] : [])]
}
