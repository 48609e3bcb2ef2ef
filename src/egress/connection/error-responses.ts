// Error responses of the proxy. Some clients show only the reason phrase, some only the body, and programs read the headers, so
// all of them carry the reason. See docs/decisions.md#denied-requests.

interface ErrorResponse {
  readonly status: number
  /** Reason phrase, which wget, Python, apt, Java and Go print. */
  readonly phrase: string
  /** The error token of RFC 9209. */
  readonly token: string
  /** Completes "egress-proxy: …". */
  describe(details: ProxyErrorDetails): string
}

/** What a message may contain. It never names other entries of the allowlist. */
export interface ProxyErrorDetails {
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly id?: string | undefined
  readonly detail?: string | undefined
}

type Describe = ErrorResponse['describe']

const POLICY = 'This is policy, not a network fault; do not retry another way.'

const hostOf = ({ host, port }: ProxyErrorDetails): string =>
  host === undefined ? 'the host' : `${JSON.stringify(host)}${port === undefined ? '' : ` port ${port}`}`

const forSource = ({ id }: ProxyErrorDetails): string => (id === undefined ? '' : ` for ${JSON.stringify(id)}`)

const because = ({ detail }: ProxyErrorDetails): string => (detail === undefined ? '' : `: ${detail}`)

const row = (status: number, phrase: string, token: string, describe: Describe): ErrorResponse => ({
  status,
  phrase,
  token,
  describe,
})

const denied = (reason: string, describe: Describe, token = 'http_request_denied'): ErrorResponse =>
  row(403, `Forbidden by egress-proxy (${reason})`, token, (details) => `${describe(details)} ${POLICY}`)

const invalid = (status: number, phrase: string, describe: Describe): ErrorResponse =>
  row(status, phrase, 'http_request_error', describe)

const badGateway = (reason: string, token: string, describe: Describe): ErrorResponse =>
  row(502, `Bad Gateway (${reason})`, token, describe)

const timeout = (reason: string, token: string, describe: Describe): ErrorResponse =>
  row(504, `Gateway Timeout (${reason})`, token, describe)

const unavailable = (reason: string, token: string, sentence: string): ErrorResponse =>
  row(503, `Service Unavailable (${reason})`, token, () => sentence)

export const ERROR_RESPONSES = {
  'blocked-by-allowlist': denied('host not in allowlist', (d) => `host ${hostOf(d)} is not allowed${forSource(d)}.`),
  'ip-literal': denied(
    'host not in allowlist',
    (d) => `${hostOf(d)} is an address, and only host names can be allowed${forSource(d)}.`,
  ),
  'unregistered-source': denied('source not registered', () => 'no allowlist is registered for your address.'),
  'destination-ip-prohibited': denied(
    'address not allowed',
    (d) => `host ${hostOf(d)} has an address that is not allowed${forSource(d)}${because(d)}.`,
    'destination_ip_prohibited',
  ),
  'bad-request': invalid(400, 'Bad Request', (d) => `malformed request${because(d)}.`),
  'uri-too-long': invalid(414, 'URI Too Long', () => 'the request line is too long.'),
  'expectation-failed': invalid(417, 'Expectation Failed', () => 'the only supported Expect header is 100-continue.'),
  'head-too-large': invalid(431, 'Request Header Fields Too Large', () => 'the request head is larger than 64 KiB.'),
  'head-timeout': invalid(408, 'Request Timeout', () => 'the request head was not received in time.'),
  'not-implemented': invalid(501, 'Not Implemented', (d) => `the request is not supported${because(d)}.`),
  'version-not-supported': invalid(505, 'HTTP Version Not Supported', () => 'use HTTP/1.1 or HTTP/1.0.'),
  'not-a-proxy-request': invalid(
    400,
    'Bad Request (this is a proxy)',
    () => 'this is a proxy, not a web server. Set HTTP_PROXY and HTTPS_PROXY to this address.',
  ),
  'dns-error': badGateway('name not found', 'dns_error', (d) => `cannot resolve host ${hostOf(d)}${because(d)}.`),
  'dns-timeout': timeout('name lookup', 'dns_timeout', (d) => `DNS lookup of host ${hostOf(d)} timed out.`),
  'connection-refused': badGateway(
    'connection refused',
    'connection_refused',
    (d) => `host ${hostOf(d)} refused the connection.`,
  ),
  'destination-unroutable': badGateway(
    'no route',
    'destination_ip_unroutable',
    (d) => `there is no route to host ${hostOf(d)}.`,
  ),
  'connection-timeout': timeout(
    'connecting',
    'connection_timeout',
    (d) => `connecting to host ${hostOf(d)} timed out.`,
  ),
  'connection-terminated': badGateway(
    'connection closed',
    'connection_terminated',
    (d) => `host ${hostOf(d)} closed the connection before it responded.`,
  ),
  'read-timeout': timeout(
    'no response',
    'connection_read_timeout',
    (d) => `host ${hostOf(d)} did not respond in time.`,
  ),
  'bad-response': badGateway(
    'invalid response',
    'http_protocol_error',
    (d) => `host ${hostOf(d)} sent an invalid HTTP/1.1 response${because(d)}.`,
  ),
  'limit-reached': unavailable(
    'too many connections',
    'connection_limit_reached',
    'too many connections are open; try again in a moment.',
  ),
  'out-of-files': unavailable(
    'out of file descriptors',
    'proxy_internal_error',
    'the proxy can open no more files; try again in a moment.',
  ),
  'proxy-loop': badGateway('loop', 'proxy_loop_detected', (d) => `host ${hostOf(d)} leads back to this proxy.`),
  'shutting-down': unavailable('stopping', 'proxy_internal_error', 'the proxy is stopping.'),
  'internal-error': row(
    500,
    'Internal Server Error',
    'proxy_internal_error',
    () => "internal error; see the proxy's log.",
  ),
} as const satisfies Record<string, ErrorResponse>

export type ProxyErrorCode = keyof typeof ERROR_RESPONSES

/** Codes that only the log distinguishes, and the code that clients see. */
const PUBLIC_CODES: Partial<Record<ProxyErrorCode, string>> = {
  'ip-literal': 'blocked-by-allowlist',
  'uri-too-long': 'bad-request',
  'expectation-failed': 'bad-request',
  'head-too-large': 'bad-request',
  'head-timeout': 'bad-request',
  'not-implemented': 'bad-request',
  'version-not-supported': 'bad-request',
}

export interface ErrorResponseOptions {
  /** The operator's addition to every denial. */
  readonly denyMessage?: string | undefined
  /** The client accepts JSON. */
  readonly json?: boolean | undefined
  /** Set for HEAD requests. */
  readonly bodiless?: boolean | undefined
  readonly keepAlive?: boolean | undefined
}

/** Returns head and body. Without `keepAlive` the caller must close the connection afterwards. */
export function formatErrorResponse(
  code: ProxyErrorCode,
  details: ProxyErrorDetails = {},
  options: ErrorResponseOptions = {},
): Buffer {
  const { status, phrase, token, describe } = ERROR_RESPONSES[code]
  const shown = PUBLIC_CODES[code] ?? code
  const suffix = status === 403 && options.denyMessage ? ` ${options.denyMessage}` : ''
  const sentence = `egress-proxy: ${describe(truncate(details))}${suffix}`
  const body = options.json ? jsonBody(status, shown, sentence, details) : `${sentence}\n`
  const lines = [
    `HTTP/1.1 ${status} ${phrase}`,
    `Content-Type: ${options.json ? 'application/json' : 'text/plain; charset=utf-8'}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Proxy-Error: ${shown}`,
    `Proxy-Status: egress-proxy; error=${token}`,
    ...(status === 503 ? ['Retry-After: 1'] : []),
    ...(options.keepAlive ? [] : ['Connection: close']),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${options.bodiless ? '' : body}`)
}

function jsonBody(status: number, reason: string, message: string, { host, port, id }: ProxyErrorDetails): string {
  return `${JSON.stringify({ status, reason, host, port, id, message })}\n`
}

const NAME_MAX = 256

/** Keeps the response small whatever the client requested. */
function truncate({ host, port, id, detail }: ProxyErrorDetails): ProxyErrorDetails {
  return { host: host?.slice(0, NAME_MAX), port, id: id?.slice(0, NAME_MAX), detail: detail?.slice(0, NAME_MAX) }
}

/** Fatal alert access_denied: TLS clients show "access denied" instead of a broken connection. */
export const TLS_ACCESS_DENIED_ALERT: Buffer = Buffer.from([0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31])
