// One JSON line for each thing that happened, to stderr: stdout belongs to what a command answers. On a terminal the same
// lines for people. Never a header or a body, and never a token of a link.
import { type DestinationStream, type Logger, pino, symbols } from 'pino'
import { type Lines, LogStream } from './log-stream.ts'
import { digestOf, redact, redactJson } from './redact.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export type Log = Logger

export interface LogOptions {
  readonly level?: LogLevel
  /** For people instead of programs; unsaid: when stderr is a terminal. */
  readonly pretty?: boolean
  /** Where lines go instead of stderr. */
  readonly to?: DestinationStream
}

const STDERR = 2
const PATH_MAX = 256
const REASON_MAX = 512
/** How long lines are gathered while many come. */
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

/** Every line passes here, so a credential that reached a log call is not written. */
function redacting(stream: DestinationStream): DestinationStream {
  return { write: (lines) => stream.write(redactJson(lines)) }
}

/** Takes lines of JSON, to stderr; for whoever puts them together by himself. */
export async function openLogStream(options: Pick<LogOptions, 'pretty'> = {}): Promise<Lines> {
  const { pretty = process.stderr.isTTY } = options
  if (!pretty) return new LogStream()
  const { PinoPretty } = await import('pino-pretty')
  const stream = PinoPretty({ destination: STDERR, sync: true, translateTime: 'SYS:HH:MM:ss.l', singleLine: true })
  return { write: (lines) => void stream.write(lines), dropped: 0 }
}

/** A request that was answered. */
export interface Answered {
  readonly method: string
  /** As it came; tokens are taken out here. */
  readonly path: string
  readonly status: number
  readonly ms: number
  readonly request: string
  readonly caller?: string | undefined
  readonly remote?: string | undefined
  /** Why it was refused. */
  readonly reason?: string | undefined
}

export function logAnswer(log: Log, { method, path, status, ms, reason, ...rest }: Answered): void {
  if (!log.isLevelEnabled('info')) return
  log.info({
    method,
    path: withoutTokens(path).slice(0, PATH_MAX),
    status,
    ms: Math.round(ms * 10) / 10,
    ...rest,
    ...(reason === undefined ? {} : { reason: redact(reason).slice(0, REASON_MAX) }),
  })
}

/** For answers by the thousand: the path holds no token any more. */
export interface AnswerLog {
  write(answered: Answered): void
  /** Writes what is gathered, for whoever is about to end. */
  flush(): void
}

/** The same lines as `logAnswer`'s, put together by hand and written once a turn of the event loop. */
export function openAnswerLog(log: Log): AnswerLog {
  const stream: unknown = Reflect.get(log, symbols.streamSym)
  if (!isWritable(stream)) return { write: (answered) => logAnswer(log, answered), flush: () => {} }
  const bound = JSON.stringify(log.bindings()).slice(1, -1)
  let pending = ''
  let flushedAt = 0
  let [stampedAt, stamp] = [0, '']
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
  const write = ({ method, path, status, ms, request, caller, remote, reason }: Answered): void => {
    if (!log.isLevelEnabled('info')) return
    const now = Date.now()
    if (now !== stampedAt) [stampedAt, stamp] = [now, new Date(now).toISOString()]
    if (pending === '') flushSoon()
    // Only what we made ourselves is not quoted anew.
    pending +=
      `{"level":"info","time":"${stamp}",${bound},"method":${JSON.stringify(method)},"path":${JSON.stringify(path.slice(0, PATH_MAX))},"status":${status},"ms":${Math.round(ms * 10) / 10},"request":"${request}"` +
      `${caller === undefined ? '' : `,"caller":${JSON.stringify(caller)}`}${remote === undefined ? '' : `,"remote":"${remote}"`}` +
      `${reason === undefined ? '' : `,"reason":${JSON.stringify(redact(reason).slice(0, REASON_MAX))}`}}\n`
  }
  return { write, flush }
}

function isWritable(stream: unknown): stream is DestinationStream {
  return typeof stream === 'object' && stream !== null && 'write' in stream && typeof stream.write === 'function'
}

/** What follows these is a secret that gives access. */
const LINKS = new Set(['chat', 'hook', 'invite'])

/** A path as it may be written down: a token is replaced by the first 8 hex digits of its sha256 (decision L15). */
export function withoutTokens(path: string): string {
  const [, first = ''] = path.split('/', 2)
  // The common case is no link, and costs no more than this.
  if (!path.includes('%') && !LINKS.has(first.toLowerCase()) && redact(path) === path) return path
  let isToken = false
  const shown = path.split('/').map((segment) => {
    const plain = decoded(segment)
    const hides = isToken ? plain !== '' : plain !== segment && redact(plain) !== plain
    // Empty segments do not end it: "/chat//<token>" is answered with 404, and written down all the same.
    isToken = LINKS.has(plain.toLowerCase()) || (isToken && plain === '')
    return hides ? digestOf(plain) : redact(segment)
  })
  return shown.join('/')
}

function decoded(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
