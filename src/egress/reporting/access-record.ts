// The record of one request, from which the log line and the counters are made.

export type ProxyMode = 'connect' | 'http' | 'transparent-tls' | 'transparent-http'

export interface AccessRecord {
  readonly mode: ProxyMode
  readonly source: string
  readonly id?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** The name in a refused TLS hello; the host itself was allowed. */
  readonly sni?: string | undefined
  /** The dialled address. */
  readonly address?: string | undefined
  readonly verdict: 'allow' | 'deny' | 'error'
  readonly reason: string
  /** The allowlist entry that allowed it. */
  readonly rule?: string | undefined
  /** The HTTP status sent to the client, if any. */
  readonly status?: number | undefined
  readonly bytesUp: number
  readonly bytesDown: number
  readonly ms: number
  readonly dialMs?: number | undefined
}

const HOST_MAX = 256

/** One JSON line. Client text is quoted and cut, so it cannot end the line or fill the disk. */
export function formatAccessLine(exchange: AccessRecord, time: string): string {
  const { mode, source, id, host, port, sni, address, verdict, reason, rule, status, bytesUp, bytesDown, ms, dialMs } =
    exchange
  // Formatted by hand: written for every connection, and only five fields come from outside.
  return (
    `{"level":"${verdict === 'allow' ? 'info' : 'warn'}","time":"${time}","mode":"${mode}","source":"${source}"` +
    (id === undefined ? '' : `,"id":${JSON.stringify(id)}`) +
    (host === undefined ? '' : `,"host":${JSON.stringify(host.slice(0, HOST_MAX))}`) +
    (port === undefined ? '' : `,"port":${port}`) +
    (sni === undefined ? '' : `,"sni":${JSON.stringify(sni.slice(0, HOST_MAX))}`) +
    (address === undefined ? '' : `,"address":"${address}"`) +
    `,"verdict":"${verdict}","reason":"${reason}"` +
    (rule === undefined ? '' : `,"rule":${JSON.stringify(rule)}`) +
    (status === undefined ? '' : `,"status":${status}`) +
    `,"bytes_up":${bytesUp},"bytes_down":${bytesDown}` +
    (dialMs === undefined ? '' : `,"dial_ms":${rounded(dialMs)}`) +
    `,"ms":${rounded(ms)}}\n`
  )
}

/** For refusals that were only counted. */
export function formatSuppressedLine(source: string, count: number, time: string): string {
  return `{"level":"warn","time":"${time}","source":"${source}","left_out":${count},"msg":"refusals above the log limit were not logged"}\n`
}

/** A message that concerns the proxy, not a connection. */
export function formatMessageLine(level: 'info' | 'warn', msg: string): string {
  return `${JSON.stringify({ level, time: new Date().toISOString(), msg })}\n`
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10
}
