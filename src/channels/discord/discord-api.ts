// Calls of Discord's REST API, with errors that say whether the platform has the message.
import { setTimeout as pause } from 'node:timers/promises'
import { DiscordAPIError, HTTPError, RateLimitError, type RawFile, REST } from '@discordjs/rest'
import { type AccountAccess, PlatformError } from '../process/port.ts'

const API_URL = 'https://discord.com/api'
/** Long enough for 10 MiB. */
const TIMEOUT_MS = 60_000
const PAUSE_MS = 1000
const PAUSE_MAX_MS = 30_000
/** A token that is refused may be a mistake of the platform. */
const REFUSED_PAUSE_MS = 60_000
/** No pause that the platform asks for may stop the bot for longer. */
const LIMITED_MAX_MS = 3_600_000
const DETAIL_MAX = 300

export const TOKEN_FAULT = 'Discord does not accept the token'

export interface DiscordRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below `/v10`. */
  readonly path: `/${string}`
  readonly body?: object | undefined
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly files?: RawFile[] | undefined
}

/** An answer with an error. */
export class DiscordError extends PlatformError {
  readonly status: number
  /** Of Discord, such as 10008 for an unknown message. */
  readonly code: number

  constructor(status: number, code: number, message: string) {
    super('refused', message)
    this.status = status
    this.code = code
  }
}

export class DiscordApi {
  readonly #access: AccountAccess
  readonly #rest: REST
  readonly #onTokenChecked: (isAccepted: boolean) => void
  #isTokenRefused = false

  /** `onTokenChecked` is called when Discord refuses the token, and when it takes it again. */
  constructor(access: AccountAccess, onTokenChecked: (isAccepted: boolean) => void = () => undefined) {
    this.#access = access
    this.#onTokenChecked = onTokenChecked
    this.#rest = new REST({
      api: discordRootOf(access),
      version: '10',
      retries: 0,
      offset: 0,
      timeout: TIMEOUT_MS,
      rejectOnRateLimit: () => true,
      // Uses the proxy of the environment, as the package's own does not. The types are those of another version of undici.
      makeRequest: (url, init) => fetch(url, { ...(init as unknown as RequestInit), redirect: 'error' }),
    })
  }

  /** Throws a `PlatformError`. No error contains the token. */
  async request({ method, path, body, query, files }: DiscordRequest): Promise<unknown> {
    const { secrets, signal } = this.#access
    // The package forgets a token after status 401.
    this.#rest.setToken(secrets.token ?? '')
    // The package never removes its listener from the signal, which would grow for as long as the process runs.
    const stop = new AbortController()
    const abort = (): void => stop.abort()
    signal.addEventListener('abort', abort)
    try {
      signal.throwIfAborted()
      const answer = await this.#rest.request({
        method: method as Parameters<REST['request']>[0]['method'],
        fullRoute: path,
        body,
        signal: stop.signal,
        ...(query ? { query: new URLSearchParams(query) } : {}),
        ...(files ? { files } : {}),
      })
      if (this.#isTokenRefused) this.#setTokenRefused(false)
      return answer
    } catch (error) {
      const platformError = platformErrorOf(error)
      if (isDiscordTokenFault(platformError)) this.#setTokenRefused(true)
      throw platformError
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  #setTokenRefused(isRefused: boolean): void {
    this.#isTokenRefused = isRefused
    this.#onTokenChecked(!isRefused)
  }

  /** Waits as long as Discord cannot be reached or has too many requests; throws what it refuses, and when the process stops. */
  async readPatiently(path: DiscordRequest['path'], query?: Readonly<Record<string, string>>): Promise<unknown> {
    for (let failures = 0; ; failures++) {
      try {
        return await this.request({ method: 'GET', path, query })
      } catch (error) {
        const isFinal = error instanceof PlatformError && error.kind === 'refused' && !isDiscordTokenFault(error)
        if (isFinal || this.#access.signal.aborted) throw error
        await this.pauseAfter(error, failures)
      }
    }
  }

  /** Before another attempt. */
  async pauseAfter(error: unknown, failures: number): Promise<void> {
    const { signal } = this.#access
    const limitedS = error instanceof PlatformError ? (error.retryAfterS ?? 0) : 0
    const growingMs = Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(failures, 6))
    // Lookups of many channels are limited together: after pauses of one length they would fail together again.
    const limitedMs = Math.min(LIMITED_MAX_MS, limitedS * 1000) + PAUSE_MS * Math.random()
    const ms = isDiscordTokenFault(error) ? REFUSED_PAUSE_MS : limitedS > 0 ? limitedMs : growingMs
    await pause(ms, undefined, { signal }).catch(() => undefined)
  }
}

/** Without a slash at its end. */
export function discordRootOf({ apiUrl = API_URL }: Pick<AccountAccess, 'apiUrl'>): string {
  return apiUrl.endsWith('/') ? apiUrl.slice(0, -1) : apiUrl
}

export function isDiscordTokenFault(error: unknown): boolean {
  return error instanceof DiscordError && error.status === 401
}

/** There is nothing, or nothing that the bot may see, or Discord does not take the request: another attempt would end alike. */
export function isMissing(error: unknown): boolean {
  return error instanceof DiscordError && !isDiscordTokenFault(error)
}

/** Nothing was sent: there was no connection. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH'])

function platformErrorOf(error: unknown): PlatformError {
  if (error instanceof RateLimitError) {
    const retryAfterS = error.retryAfter > 0 ? Math.ceil(error.retryAfter / 1000) : undefined
    return new PlatformError('rate_limited', 'Discord has had too many requests', { retryAfterS })
  }
  if (error instanceof DiscordAPIError) {
    const code = Number(error.code) || 0
    const detail = `${error.message.slice(0, DETAIL_MAX)} (${code || error.status})`
    return new DiscordError(error.status, code, error.status === 401 ? TOKEN_FAULT : `Discord answers: ${detail}`)
  }
  if (error instanceof HTTPError) {
    // A gateway that reached no server.
    const isUnsent = error.status === 502 || error.status === 503
    return new PlatformError(isUnsent ? 'unavailable' : 'unclear', `Discord answers with status ${error.status}`)
  }
  const code = codeOf(error)
  const isUnsent = code !== undefined && NOT_CONNECTED.has(code)
  return new PlatformError(
    isUnsent ? 'unavailable' : 'unclear',
    `Discord cannot be reached (${code ?? 'the connection broke'})`,
  )
}

function codeOf(error: unknown): string | undefined {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined
}
