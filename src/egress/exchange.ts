// One request and what became of it: what the log line and the counters are made of.

export type Mode = 'connect' | 'http' | 'transparent-tls' | 'transparent-http'

export interface Exchange {
  readonly mode: Mode
  readonly source: string
  readonly id?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** The name in a TLS hello that was refused; the host itself was allowed. */
  readonly sni?: string | undefined
  /** Which address was dialled. */
  readonly address?: string | undefined
  readonly verdict: 'allow' | 'deny' | 'error'
  readonly reason: string
  /** The entry of the list that allowed it. */
  readonly rule?: string | undefined
  /** What the client was told, where that is a number. */
  readonly status?: number | undefined
  readonly bytesUp: number
  readonly bytesDown: number
  readonly ms: number
  readonly dialMs?: number | undefined
}

const HOST_MAX = 256

/** A line of JSON. Text from outside is quoted and cut: it cannot end the line, or fill the disk. */
export function lineOf(exchange: Exchange, time: string): string {
  const { mode, source, id, host, port, sni, address, verdict, reason, rule, status, bytesUp, bytesDown, ms, dialMs } =
    exchange
  // Put together by hand: this is written for every connection, and only five of the texts come from outside.
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

/** Refusals that have no line of their own. */
export function lineOfLeftOut(source: string, count: number, time: string): string {
  return `{"level":"warn","time":"${time}","source":"${source}","left_out":${count},"msg":"more refusals than are logged one by one"}\n`
}

/** Something that concerns the proxy and no connection. */
export function lineOfWords(level: 'info' | 'warn', msg: string): string {
  return `${JSON.stringify({ level, time: new Date().toISOString(), msg })}\n`
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10
}
