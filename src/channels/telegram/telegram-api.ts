// Calls of the Bot API, with errors that say whether the platform has the message.
import { Api, GrammyError, HttpError } from 'grammy'
import { type AccountAccess, PlatformError } from '../process/port.ts'

const API_URL = 'https://api.telegram.org'
const TIMEOUT_S = 60

export function openApi(access: AccountAccess): Api {
  return new Api(access.secrets.token ?? '', { apiRoot: apiRootOf(access), timeoutSeconds: TIMEOUT_S })
}

/** Without a slash at its end. */
export function apiRootOf({ apiUrl = API_URL }: Pick<AccountAccess, 'apiUrl'>): string {
  return apiUrl.endsWith('/') ? apiUrl.slice(0, -1) : apiUrl
}

/** Nothing was sent: there was no connection. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH'])

/** Runs one call. No error contains the token. */
export async function callApi<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw platformErrorOf(error)
  }
}

function platformErrorOf(error: unknown): unknown {
  if (error instanceof GrammyError) {
    const { error_code: code, description, parameters } = error
    const moved = parameters.migrate_to_chat_id
    const message = `Telegram answers: ${description}${moved === undefined ? '' : `; the chat is group/${moved} now`}`
    if (code === 429) return new PlatformError('rate_limited', message, { retryAfterS: parameters.retry_after })
    // A gateway that reached no server.
    if (code === 502 || code === 503) return new PlatformError('unavailable', message)
    return new PlatformError(code >= 500 ? 'unclear' : 'refused', message)
  }
  if (!(error instanceof HttpError)) return error
  const code = codeOf(error.error)
  const isUnsent = code !== undefined && NOT_CONNECTED.has(code)
  return new PlatformError(
    isUnsent ? 'unavailable' : 'unclear',
    `Telegram cannot be reached (${code ?? 'the connection broke'})`,
  )
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** The token is not valid any more. */
export function isTokenFault(error: unknown): boolean {
  return error instanceof GrammyError && (error.error_code === 401 || error.error_code === 404)
}
