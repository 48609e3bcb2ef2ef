// `/line`: how another process of the instance on SQLite, which has dialled this daemon (`process/line-client.ts`), hears of
// commits here and tells of its own. PostgreSQL notifies processes itself. See docs/architecture.md#the-path-of-one-message.
import type { ServerResponse } from 'node:http'
import type { Context } from 'hono'
import { z } from 'zod'
import { LINE_SERVICE, lineAudience } from '../../core/access/bearers.ts'
import { LivePiece } from '../../core/turns/drafts.ts'
import { WORK_KINDS, type WorkKind } from '../../lib/commit-signals.ts'
import { readBodyBytes } from '../../lib/http/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { PeerMessage } from '../../supervisor/messages.ts'
import type { DaemonContext } from '../daemon.ts'
import { LINE_PIECES_MAX, receiveDrafts } from '../process/draft-relay.ts'
import { bridgeSignals, KEYS_MAX, receiveCommits } from '../process/runner-process.ts'
import { authenticate } from './credentials.ts'
import { outgoingOf } from './peers.ts'
import { alreadySentResponse } from './request-middleware.ts'

export const LINE_PATH = '/line'
/** Open lines of a daemon; the oldest gives way, because its process may be gone. */
export const LINES_MAX = 8
/** KEYS_MAX keys of KEY_MAX characters fit. */
export const LINE_MESSAGE_MAX = 512 * 1024
const KEY_MAX = 512
/** Lets both sides find out that the other is gone. */
const BLANK_LINE_MS = 15_000

const Work = z.array(z.enum(WORK_KINDS)).max(WORK_KINDS.length)
const Commit = z.strictObject({
  kind: z.literal('commit'),
  keys: z.array(z.string().max(KEY_MAX)).max(KEYS_MAX).optional(),
  work: Work,
})

const Drafts = z.strictObject({ kind: z.literal('drafts'), pieces: z.array(LivePiece).max(LINE_PIECES_MAX) })
const Message = z.discriminatedUnion('kind', [Commit, Drafts])

/** Undefined for anything but a message about a commit or about drafts. */
export function parseLineMessage(text: string): z.output<typeof Message> | undefined {
  return Message.safeParse(tryParseJson(text)).data
}

/** Whether processes need lines to hear of each other's commits. */
export function usesLines({ engine }: Pick<InstanceHost, 'engine'>): boolean {
  return engine.dialect.notifySql === undefined
}

export function mountLine({ app, host, stopping }: Pick<DaemonContext, 'app' | 'host' | 'stopping'>): void {
  if (!usesLines(host)) return
  const open = new Set<ServerResponse>()
  const endAll = (): void => {
    for (const response of open) response.end()
  }
  stopping.addEventListener('abort', host.faults.guard('stream', endAll))

  app.get(LINE_PATH, async (c) => {
    await mustBeDaemon(host, c)
    const work = Work.safeParse(c.req.query('work')?.split(',')).data ?? refuse('invalid', 'work is missing or unknown')
    if (stopping.aborted) refuse('unavailable', 'the daemon is stopping')
    const outgoing = outgoingOf(c)
    if (!outgoing || c.req.method === 'HEAD') return c.body(null, 204)
    const [oldest] = open
    if (oldest && open.size >= LINES_MAX) {
      open.delete(oldest)
      oldest.end()
    }
    openLine(host, outgoing, work, open)
    return alreadySentResponse(200)
  })

  app.post(LINE_PATH, async (c) => {
    await mustBeDaemon(host, c)
    const body = new TextDecoder().decode(await readBodyBytes(c.req.raw, LINE_MESSAGE_MAX))
    const message = parseLineMessage(body) ?? refuse('invalid', 'the body is not a message of a line')
    receiveCommits(message, host.signals)
    receiveDrafts(message, host)
    c.set('isUnlogged', true)
    return c.body(null, 204)
  })
}

/** Sends lines of JSON. They name kinds of work, and no chat. */
function openLine(
  host: InstanceHost,
  outgoing: ServerResponse,
  work: readonly WorkKind[],
  open: Set<ServerResponse>,
): void {
  // A destroyed response emits no further 'close'.
  if (outgoing.destroyed) return
  const send = (line: string): void => {
    // A message for a process that does not read is dropped.
    if (outgoing.writable && !outgoing.writableNeedDrain) outgoing.write(`${line}\n`)
  }
  outgoing.writeHead(200, { 'Content-Type': 'application/x-ndjson', 'Cache-Control': 'no-store' })
  send('')
  open.add(outgoing)
  const line = { sendToPeer: (message: PeerMessage) => send(JSON.stringify(message)), onPeerMessage: () => undefined }
  const stop = bridgeSignals(line, host, { work, hasKeys: false, isEager: false })
  const blank = setInterval(
    host.faults.guard('stream', () => send('')),
    BLANK_LINE_MS,
  ).unref()
  const forget = (): void => {
    open.delete(outgoing)
    clearInterval(blank)
    stop()
  }
  outgoing.once('close', host.faults.guard('stream', forget))
}

/** One answer for all other callers. */
async function mustBeDaemon(host: InstanceHost, c: Context): Promise<void> {
  const authorization = c.req.header('Authorization')
  const { caller } = await authenticate(host, { authorization }, { audiences: [lineAudience(host)] })
  if (caller?.kind !== 'service' || caller.sub !== LINE_SERVICE)
    throw new Refusal('unauthenticated', 'this path is for the daemons of the instance')
  c.set('caller', caller)
}
