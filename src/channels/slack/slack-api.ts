// Calls of Slack's Web API, with errors that say whether Slack has the message. A call is never repeated here: svc does that.
import {
  WebAPIHTTPError,
  WebAPIPlatformError,
  WebAPIRateLimitedError,
  WebAPIRequestError,
  WebClient,
  type WebClientOptions,
} from '@slack/web-api'
import { isObject } from '../../lib/text/json.ts'
import { type AccountAccess, PlatformError } from '../process/port.ts'

const API_URL = 'https://slack.com'
/** svc waits 30 seconds for an answer. */
const TIMEOUT_MS = 25_000
const ERROR_MAX = 200

export type SlackResult = Readonly<Record<string, unknown>>
/** One call of a method. */
export type SlackCall = (method: string, args?: Record<string, unknown>) => Promise<SlackResult>

export function openSlackApi(access: AccountAccess): SlackCall {
  const client = new WebClient(access.secrets.bot_token, { ...webOptions(access), logger: SILENT })
  return (method, args = {}) => checked(client.apiCall(method, args).then((result) => ({ ...result })))
}

export function webOptions(access: Pick<AccountAccess, 'apiUrl'>): Omit<WebClientOptions, 'logger' | 'logLevel'> {
  return {
    slackApiUrl: `${slackRootOf(access)}/api/`,
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    allowAbsoluteUrls: false,
    timeout: TIMEOUT_MS,
    // Not the one of the package, so that the proxy settings of Node apply.
    fetch: globalThis.fetch,
  }
}

const ignore = (): void => undefined
/** The packages log whole requests and responses. */
export const SILENT = {
  ...{ debug: ignore, info: ignore, warn: ignore, error: ignore, setLevel: ignore, setName: ignore },
  getLevel: (): NonNullable<WebClientOptions['logLevel']> => 'error' as NonNullable<WebClientOptions['logLevel']>,
}

/** Without a slash at its end. */
function slackRootOf({ apiUrl = API_URL }: Pick<AccountAccess, 'apiUrl'>): string {
  return apiUrl.endsWith('/') ? apiUrl.slice(0, -1) : apiUrl
}

/** Whether the token may be sent there: Slack's own host and those below it, such as files.slack.com. */
export function isSlackUrl(url: string, access: Pick<AccountAccess, 'apiUrl'>): boolean {
  const root = new URL(slackRootOf(access))
  const given = URL.canParse(url) ? new URL(url) : undefined
  return (
    given !== undefined &&
    given.protocol === root.protocol &&
    given.port === root.port &&
    (given.hostname === root.hostname || given.hostname.endsWith(`.${root.hostname}`))
  )
}

/** A refusal of Slack, by its word for it. */
export class SlackRefusal extends PlatformError {
  readonly code: string

  constructor(kind: PlatformError['kind'], code: string, message: string, retryAfterS?: number) {
    super(kind, message, { retryAfterS })
    this.code = code
  }
}

/** Nothing was sent: there was no connection. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH'])
const TOKEN_FAULTS = new Set([
  ...['invalid_auth', 'not_authed', 'account_inactive', 'token_revoked', 'token_expired', 'team_disabled'],
  ...['no_permission', 'org_login_required', 'user_removed_from_team', 'not_allowed_token_type'],
])
/** Slack has done nothing. */
const NOT_DONE = new Set(['service_unavailable', 'request_timeout', 'accesslimited', 'team_added_to_org'])
/** Slack says that a part of it may be done. */
const MAYBE_DONE = new Set(['fatal_error', 'internal_error'])

const REMEDIES: Readonly<Record<string, string>> = {
  not_in_channel: 'invite the bot to the channel with /invite',
  channel_not_found: 'the bot is not in this chat, or it does not exist',
  is_archived: 'the channel is archived',
  message_not_found: 'there is no such message in this chat',
  cant_update_message: 'only messages of the bot can be changed',
  cant_delete_message: 'only messages of the bot can be deleted',
}

export async function checked<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw platformErrorOf(error)
  }
}

/** No error contains a token. */
function platformErrorOf(error: unknown): unknown {
  if (error instanceof WebAPIPlatformError) return refusalOf({ ...error.data })
  if (error instanceof WebAPIRateLimitedError) return limited(error.retryAfter)
  if (error instanceof WebAPIHTTPError) {
    const { statusCode: status } = error
    // A gateway that reached no server.
    const kind = status === 502 || status === 503 ? 'unavailable' : status >= 500 ? 'unclear' : 'refused'
    return new PlatformError(kind, `Slack answers with status ${status}`)
  }
  // The package has no error of its own for a limit without a time.
  if (error instanceof Error && error.message.startsWith('Retry header')) return limited(undefined)
  if (!(error instanceof WebAPIRequestError)) return error
  const code = codeOf(error.original)
  const isUnsent = code !== undefined && NOT_CONNECTED.has(code)
  return new PlatformError(
    isUnsent ? 'unavailable' : 'unclear',
    `Slack cannot be reached (${code ?? 'the connection broke'})`,
  )
}

function limited(seconds: number | undefined): SlackRefusal {
  return new SlackRefusal('rate_limited', 'ratelimited', 'Slack answers: too many requests', seconds)
}

function refusalOf(data: SlackResult): SlackRefusal {
  const code = String(data.error ?? 'unknown_error').slice(0, ERROR_MAX)
  if (code === 'ratelimited' || code === 'rate_limited') return limited(undefined)
  const needed = typeof data.needed === 'string' ? data.needed.slice(0, ERROR_MAX) : undefined
  const remedy =
    needed === undefined
      ? REMEDIES[code]
      : `the app needs the scope ${needed}: add it at api.slack.com, and install the app again`
  const kind = NOT_DONE.has(code) ? 'unavailable' : MAYBE_DONE.has(code) ? 'unclear' : 'refused'
  return new SlackRefusal(kind, code, `Slack answers: ${code}${remedy === undefined ? '' : ` (${remedy})`}`)
}

/** `fetch` hides the reason as a cause. */
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  if ('code' in error && typeof error.code === 'string') return error.code
  return codeOf(error.cause)
}

/** The token is not valid any more. */
export function isSlackTokenFault(error: unknown): boolean {
  return error instanceof SlackRefusal && TOKEN_FAULTS.has(error.code)
}

export function isRefusedAs(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof SlackRefusal && codes.includes(error.code)
}

/** Members of foreign JSON may have any type. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

export function objectOf(value: unknown): SlackResult {
  return isObject(value) ? value : {}
}

export function objectsOf(value: unknown): SlackResult[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}
