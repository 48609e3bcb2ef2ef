// What a client is told when it does not get what it asked for. Many show their user only the reason phrase, some only the
// body, programs read the headers: the reason stands in all of them.

interface Answer {
  readonly status: number
  /** Behind the number in the status line, which wget, Python, apt, Java and Go print. */
  readonly phrase: string
  /** The error token of RFC 9209. */
  readonly token: string
  /** Completes "egress-proxy: …". */
  say(about: About): string
}

/** What the sentence may name. It never names other entries of a list. */
export interface About {
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly id?: string | undefined
  /** What exactly was wrong. */
  readonly detail?: string | undefined
}

const POLICY = 'This is policy, not a network fault; do not retry another way.'

const named = ({ host, port }: About): string =>
  host === undefined ? 'the host' : `${JSON.stringify(host)}${port === undefined ? '' : ` port ${port}`}`

const forWhom = ({ id }: About): string => (id === undefined ? '' : ` for ${JSON.stringify(id)}`)

const because = ({ detail }: About): string => (detail === undefined ? '' : `: ${detail}`)

function answer(status: number, phrase: string, token: string, say: (about: About) => string): Answer {
  return { status, phrase, token, say }
}

export const ANSWERS = {
  'blocked-by-allowlist': answer(
    403,
    'Forbidden by egress-proxy (host not in allowlist)',
    'http_request_denied',
    (about) => `host ${named(about)} is not allowed${forWhom(about)}. ${POLICY}`,
  ),
  'ip-literal': answer(
    403,
    'Forbidden by egress-proxy (host not in allowlist)',
    'http_request_denied',
    (about) => `${named(about)} is an address, and only host names can be allowed${forWhom(about)}. ${POLICY}`,
  ),
  'unregistered-source': answer(
    403,
    'Forbidden by egress-proxy (source not registered)',
    'http_request_denied',
    () => `nothing is allowed for the address that you come from. ${POLICY}`,
  ),
  'destination-ip-prohibited': answer(
    403,
    'Forbidden by egress-proxy (address not allowed)',
    'destination_ip_prohibited',
    (about) =>
      `host ${named(about)} leads to an address that is not allowed${forWhom(about)}${because(about)}. ${POLICY}`,
  ),
  'bad-request': answer(
    400,
    'Bad Request',
    'http_request_error',
    (about) => `the request is malformed${because(about)}.`,
  ),
  'uri-too-long': answer(414, 'URI Too Long', 'http_request_error', () => 'the request line is too long.'),
  'expectation-failed': answer(
    417,
    'Expectation Failed',
    'http_request_error',
    () => 'the field Expect asks for something other than 100-continue.',
  ),
  'head-too-large': answer(
    431,
    'Request Header Fields Too Large',
    'http_request_error',
    () => 'the head of the request is larger than 64 KiB.',
  ),
  'head-timeout': answer(
    408,
    'Request Timeout',
    'http_request_error',
    () => 'the head of the request did not come in time.',
  ),
  'not-implemented': answer(
    501,
    'Not Implemented',
    'http_request_error',
    (about) => `this is not understood here${because(about)}.`,
  ),
  'version-not-supported': answer(
    505,
    'HTTP Version Not Supported',
    'http_request_error',
    () => 'this is a proxy for HTTP/1.1 and HTTP/1.0.',
  ),
  'not-a-proxy-request': answer(
    400,
    'Bad Request (this is a proxy)',
    'http_request_error',
    () => 'this is a proxy, not a web server. Set HTTP_PROXY and HTTPS_PROXY to this address.',
  ),
  'dns-error': answer(
    502,
    'Bad Gateway (name not found)',
    'dns_error',
    (about) => `host ${named(about)} cannot be resolved${because(about)}.`,
  ),
  'dns-timeout': answer(
    504,
    'Gateway Timeout (name lookup)',
    'dns_timeout',
    (about) => `looking up host ${named(about)} took too long.`,
  ),
  'connection-refused': answer(
    502,
    'Bad Gateway (connection refused)',
    'connection_refused',
    (about) => `host ${named(about)} refused the connection.`,
  ),
  'destination-unroutable': answer(
    502,
    'Bad Gateway (no route)',
    'destination_ip_unroutable',
    (about) => `there is no way to host ${named(about)}.`,
  ),
  'connection-timeout': answer(
    504,
    'Gateway Timeout (connecting)',
    'connection_timeout',
    (about) => `host ${named(about)} did not answer in time.`,
  ),
  'connection-terminated': answer(
    502,
    'Bad Gateway (connection closed)',
    'connection_terminated',
    (about) => `host ${named(about)} closed the connection before it answered.`,
  ),
  'read-timeout': answer(
    504,
    'Gateway Timeout (no answer)',
    'connection_read_timeout',
    (about) => `host ${named(about)} did not answer in time.`,
  ),
  'bad-response': answer(
    502,
    'Bad Gateway (invalid answer)',
    'http_protocol_error',
    (about) => `host ${named(about)} sent an answer that is not HTTP/1.1${because(about)}.`,
  ),
  'limit-reached': answer(
    503,
    'Service Unavailable (too many connections)',
    'connection_limit_reached',
    () => 'too many connections are open; try again in a moment.',
  ),
  'out-of-files': answer(
    503,
    'Service Unavailable (out of file descriptors)',
    'proxy_internal_error',
    () => 'the proxy can open no more files; try again in a moment.',
  ),
  'proxy-loop': answer(
    502,
    'Bad Gateway (loop)',
    'proxy_loop_detected',
    (about) => `host ${named(about)} leads back to this proxy.`,
  ),
  'shutting-down': answer(
    503,
    'Service Unavailable (stopping)',
    'proxy_internal_error',
    () => 'the proxy is stopping.',
  ),
  'internal-error': answer(
    500,
    'Internal Server Error',
    'proxy_internal_error',
    () => 'something went wrong in the proxy; its log says more.',
  ),
} as const satisfies Record<string, Answer>

export type AnswerCode = keyof typeof ANSWERS

/** Codes that are worth a name of their own in the log, and not on the wire. */
const SHOWN: Partial<Record<AnswerCode, string>> = {
  'ip-literal': 'blocked-by-allowlist',
  'uri-too-long': 'bad-request',
  'expectation-failed': 'bad-request',
  'head-too-large': 'bad-request',
  'head-timeout': 'bad-request',
  'not-implemented': 'bad-request',
  'version-not-supported': 'bad-request',
}

/** How an answer is put. */
export interface Manner {
  /** What the operator adds to every denial. */
  readonly denyMessage?: string | undefined
  /** The client has said that it reads JSON. */
  readonly json?: boolean | undefined
  /** The request was HEAD: everything but the body. */
  readonly bodiless?: boolean | undefined
  readonly keepAlive?: boolean | undefined
}

/** The whole answer. A closing one says so, and whoever sends it ends the wire behind it. */
export function answerBytes(code: AnswerCode, about: About = {}, manner: Manner = {}): Buffer {
  const { status, phrase, token, say } = ANSWERS[code]
  const shown = SHOWN[code] ?? code
  const suffix = status === 403 && manner.denyMessage ? ` ${manner.denyMessage}` : ''
  const sentence = `egress-proxy: ${say(shortened(about))}${suffix}`
  const body = manner.json ? jsonBody(status, shown, sentence, about) : `${sentence}\n`
  const lines = [
    `HTTP/1.1 ${status} ${phrase}`,
    `Content-Type: ${manner.json ? 'application/json' : 'text/plain; charset=utf-8'}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Proxy-Error: ${shown}`,
    `Proxy-Status: egress-proxy; error=${token}`,
    ...(status === 503 ? ['Retry-After: 1'] : []),
    ...(manner.keepAlive ? [] : ['Connection: close']),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${manner.bodiless ? '' : body}`)
}

function jsonBody(status: number, reason: string, message: string, { host, port, id }: About): string {
  return `${JSON.stringify({ status, reason, host, port, id, message })}\n`
}

const NAME_MAX = 256

/** Input is quoted and cut: a body stays small whatever was asked for. */
function shortened({ host, port, id, detail }: About): About {
  return { host: host?.slice(0, NAME_MAX), port, id: id?.slice(0, NAME_MAX), detail: detail?.slice(0, NAME_MAX) }
}

/** What a TLS client is told: a fatal alert, access denied. Its user reads "access denied" and not of a broken line. */
export const TLS_DENIED: Buffer = Buffer.from([0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31])
