// Logs one JSON line per event to stderr, as stdout belongs to command output; readable lines on a terminal. Never logs
// headers, bodies or link tokens.
import { type DestinationStream, type Logger, pino, symbols } from 'pino'
import { type LogSink, LogStream } from './log-stream.ts'
import { digestOf, redact, redactJson } from './redact.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export type Log = Logger

export interface LogOptions {
  readonly level?: LogLevel
  /** Readable lines instead of JSON; by default if stderr is a terminal. */
  readonly pretty?: boolean
  /** Destination instead of stderr. */
  readonly to?: DestinationStream
}

const PATH_MAX = 256
const REASON_MAX = 512
/** How long lines are batched under load. */
const GATHER_MS = 5

export async function openLog(options: LogOptions = {}): Promise<Log> {
  const { level = 'info', to = await openLogStream(options) } = options
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label: string) => ({ level: label }) },
    },
    redacting(to),
  )
}

/** Every line passes through here, so credentials in log calls are never written. */
function redacting(stream: DestinationStream): DestinationStream {
  return { write: (lines) => stream.write(redactOrOmit(lines)) }
}

/** A line that cannot be redacted must not be written, and must not end the process that logs it. */
function redactOrOmit(lines: string): string {
  try {
    return redactJson(lines)
  } catch {
    return `{"level":"error","time":"${new Date().toISOString()}","msg":"log lines were left out: they cannot be redacted"}\n`
  }
}

/** Accepts JSON lines for stderr, from callers that format them themselves. */
export async function openLogStream(options: Pick<LogOptions, 'pretty'> = {}): Promise<LogSink> {
  const { pretty = process.stderr.isTTY } = options
  if (!pretty) return new LogStream()
  const { ReadableLogStream } = await import('./readable-lines.ts')
  return new ReadableLogStream()
}

export interface RequestLogEntry {
  readonly method: string
  /** As received; tokens are redacted here. */
  readonly path: string
  readonly status: number
  readonly ms: number
  readonly request: string
  readonly caller?: string | undefined
  readonly remote?: string | undefined
  /** Why it was refused. */
  readonly reason?: string | undefined
}

export function logRequest(log: Log, { method, path, status, ms, reason, ...rest }: RequestLogEntry): void {
  if (!log.isLevelEnabled('info')) return
  log.info({
    method,
    path: redactPath(path).slice(0, PATH_MAX),
    status,
    ms: Math.round(ms * 10) / 10,
    ...rest,
    ...(reason === undefined ? {} : { reason: redact(reason).slice(0, REASON_MAX) }),
  })
}

/** For frequent requests whose path contains no token. */
export interface RequestLog {
  write(answered: RequestLogEntry): void
  /** Writes the batched lines, before the process ends. */
  flush(): void
}

/** Writes the same lines as `logRequest`, formatted by hand, once per event-loop turn. */
export function openRequestLog(log: Log): RequestLog {
  const stream: unknown = Reflect.get(log, symbols.streamSym)
  if (!isWritable(stream)) return { write: (answered) => logRequest(log, answered), flush: () => {} }
  const bound = JSON.stringify(log.bindings()).slice(1, -1)
  let pending = ''
  let flushedAt = 0
  let [stampedAt, stamp] = [0, '']
  let [refusedFor, quotedReason] = ['', '']
  // Cache: thousands of requests of strangers are refused for the same reason.
  const quoted = (reason: string): string => {
    if (reason !== refusedFor)
      [refusedFor, quotedReason] = [reason, `,"reason":${JSON.stringify(redact(reason).slice(0, REASON_MAX))}`]
    return quotedReason
  }
  const flush = (): void => {
    const lines = pending
    pending = ''
    flushedAt = performance.now()
    if (lines !== '') stream.write(lines)
  }
  const flushSoon = (): void => {
    if (performance.now() - flushedAt > GATHER_MS) setImmediate(flush)
    else setTimeout(flush, GATHER_MS)
  }
  const write = ({ method, path, status, ms, request, caller, remote, reason }: RequestLogEntry): void => {
    if (!log.isLevelEnabled('info')) return
    const now = Date.now()
    if (now !== stampedAt) [stampedAt, stamp] = [now, new Date(now).toISOString()]
    if (pending === '') flushSoon()
    // Only our own values need no quoting.
    pending +=
      `{"level":"info","time":"${stamp}",${bound},"method":${JSON.stringify(method)},"path":${JSON.stringify(path.slice(0, PATH_MAX))},"status":${status},"ms":${Math.round(ms * 10) / 10},"request":"${request}"` +
      `${caller === undefined ? '' : `,"caller":${JSON.stringify(caller)}`}${remote === undefined ? '' : `,"remote":"${remote}"`}` +
      `${reason === undefined ? '' : quoted(reason)}}\n`
  }
  return { write, flush }
}

function isWritable(stream: unknown): stream is DestinationStream {
  return typeof stream === 'object' && stream !== null && 'write' in stream && typeof stream.write === 'function'
}

/** The path segment after these is a secret. */
const LINKS = new Set(['chat', 'hook', 'invite'])

/** Redacts a path for the log: a token becomes the first 8 hex digits of its SHA-256. See docs/decisions.md#tokens-stay-secret. */
export function redactPath(path: string): string {
  const [, first = ''] = path.split('/', 2)
  // The fast path: most paths contain no link.
  if (!path.includes('%') && !LINKS.has(first.toLowerCase()) && redact(path) === path) return path
  let isToken = false
  const redacted = path.split('/').map((segment) => {
    const plain = decoded(segment)
    const hides = isToken ? plain !== '' : plain !== segment && redact(plain) !== plain
    // Skip empty segments: "/chat//<token>" gets a 404 but is logged too.
    isToken = LINKS.has(plain.toLowerCase()) || (isToken && plain === '')
    return hides ? digestOf(plain) : redact(segment)
  })
  return redacted.join('/')
}

function decoded(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
