// Addresses of servers, and what to say when one does not respond.
import { rootCauseOf } from '../../lib/http/error-cause.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'

const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

/** The base URL without a trailing slash. Tokens are sent to it, so plain HTTP is for this machine only. */
export function parseBaseUrl(text: string): string {
  const url = URL.parse(text)
  const shown = JSON.stringify(text.slice(0, 200))
  if (!url || !['http:', 'https:'].includes(url.protocol))
    return refuse('invalid', `--url ${shown} is not a web address`, 'it looks like https://svc.example.com')
  if (url.username || url.password || url.search || url.hash)
    refuse('invalid', '--url must have no user name, query or fragment')
  if (url.protocol === 'http:' && !isOwnMachine(url))
    refuse('invalid', `--url ${shown} is not encrypted`, 'use https; plain http works for localhost only')
  return `${url.origin}${trimTrailing(url.pathname, '/')}`
}

export function isOwnMachine({ hostname }: URL): boolean {
  return LOOPBACK_NAMES.includes(hostname)
}

/** Describes an error of fetch in a sentence. Rethrows errors that are bugs. */
export function refuseUnreachable(base: string, error: unknown): never {
  if (error instanceof Refusal) throw error
  const { code, message } = rootCauseOf(error)
  if (code === 'ECONNREFUSED') refuse('unavailable', `no server listens at ${base}`)
  if (error instanceof Error && error.name === 'TimeoutError') refuse('unavailable', `${base} does not respond`)
  if (error instanceof TypeError && error.message === 'fetch failed')
    refuse('unavailable', `cannot reach ${base}: ${code ?? message}`)
  throw error
}

export function refuseForeignResponse(base: string, detail?: string): never {
  refuse('unavailable', `the server at ${base} does not respond like svc${detail === undefined ? '' : `: ${detail}`}`)
}
