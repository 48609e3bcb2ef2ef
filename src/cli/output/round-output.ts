// Prints the answer to a sent message as it arrives: messages of the agent to stdout, its status to stderr on a terminal.
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { cell } from '../../lib/command-line/print.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { SvcContext } from '../command.ts'
import { type LinkClient, LinkFrame, type LinkRound, TransportError } from '../link/link-client.ts'

const POLL_MS = 1000

type RoundOutcome = Pick<LinkRound, 'status' | 'error'>

export interface SentMessage {
  readonly turn_id: string
  readonly topic: string
}

/** Polls once a second and prints new frames; with --json, prints all of them at the end. */
export async function pollAndPrint(
  svc: SvcContext,
  client: Pick<LinkClient, 'poll'>,
  sent: SentMessage,
  signal: AbortSignal,
): Promise<RoundOutcome> {
  const frames: LinkFrame[] = []
  for (;;) {
    const round = await client.poll(sent.turn_id, frames.at(-1)?.seq ?? 0)
    frames.push(...round.frames)
    if (!svc.print.json) for (const frame of round.frames) printFrame(svc, frame)
    const isBehind = round.frames.length > 0 && (frames.at(-1)?.seq ?? 0) < round.last_seq
    if (isBehind) continue
    const { status, error } = round
    if (status !== 'pending') {
      const end = { status, ...(error === undefined ? {} : { error }) }
      if (svc.print.json) svc.print.record({}, { ...sent, ...end, frames })
      return end
    }
    await pause(POLL_MS, undefined, { signal })
  }
}

const Done = z.object({ status: z.enum(['success', 'failed']), error: z.string().optional() })

const Delta = z.object({ from: z.int(), text: z.string(), done: z.boolean().optional() })

const Activity = z.object({ text: z.string(), detail: z.unknown().optional() })

/** Prints each frame when it arrives, on a terminal also while it is written; with --json, each event as a line. */
export async function streamAndPrint(
  svc: SvcContext,
  client: Pick<LinkClient, 'events'>,
  { turn_id }: SentMessage,
): Promise<RoundOutcome> {
  const draft = svc.io.stdout.isTerminal ? new DraftOutput(svc) : undefined
  const activity = new ActivityLine(svc)
  try {
    for await (const { event, data } of client.events(turn_id)) {
      const value = tryParseJson(data)
      const doing = event === 'activity' ? Activity.safeParse(value).data : undefined
      if (doing) {
        if (svc.print.json) svc.print.line(JSON.stringify({ event, turn_id, ...doing }))
        else activity.show(draft?.isOpen ? '' : doing.text)
        continue
      }
      activity.show('')
      const delta = event === 'delta' ? Delta.safeParse(value).data : undefined
      if (delta) {
        if (svc.print.json) svc.print.line(JSON.stringify({ event, turn_id, ...delta }))
        else draft?.show(delta)
        continue
      }
      const frame = LinkFrame.safeParse(value).data
      const done = event === 'round_done' ? Done.safeParse(value).data : undefined
      if (svc.print.json) svc.print.line(JSON.stringify({ event, ...frame, ...(done && { turn_id, ...done }) }))
      else if (frame && draft) draft.print(frame)
      else if (frame) printFrame(svc, frame)
      if (done) draft?.end()
      if (done) return { status: done.status, ...(done.error === undefined ? {} : { error: done.error }) }
    }
    throw new TransportError('the stream ended before the round did')
  } finally {
    activity.show('')
  }
}

/** One dim line on a terminal, which is overwritten. */
class ActivityLine {
  readonly #svc: SvcContext
  #shown = ''

  constructor(svc: SvcContext) {
    this.#svc = svc
  }

  show(text: string): void {
    const { stderr, environment } = this.#svc.io
    const isOverwritable = stderr.isTerminal && environment.get('TERM') !== 'dumb'
    if (!isOverwritable || this.#svc.print.json || text === this.#shown) return
    this.#shown = text
    stderr.write(`\r\u001b[K${text === '' ? '' : this.#svc.print.dim(`${cell(text)} …`)}`)
  }
}

/** Writes a draft to a terminal as it grows. What was written stays: a text that begins again begins on a new line. */
class DraftOutput {
  readonly #svc: SvcContext
  /** On the current line, in code points. */
  #shown: string[] = []

  constructor(svc: SvcContext) {
    this.#svc = svc
  }

  /** Whether the cursor is behind a text. */
  get isOpen(): boolean {
    return this.#shown.length > 0
  }

  show({ from, text, done }: z.output<typeof Delta>): void {
    const points = [...text]
    // After a reconnect the whole draft comes again.
    const known = this.#shown.slice(from)
    const isContinued = !done && from <= this.#shown.length && known.every((point, at) => point === points[at])
    if (!isContinued) this.end()
    if (done) return
    const added = isContinued ? points.slice(known.length) : points
    for (const point of added) this.#shown.push(point)
    this.#svc.io.stdout.write(escapeControls(added.join('')))
  }

  /** Completes the draft with its message. */
  print(frame: LinkFrame): void {
    const shown = this.#shown.join('')
    const content = frame.content.trimStart()
    if (frame.kind === 'message' && shown !== '' && content.startsWith(shown)) {
      this.#shown = []
      this.#svc.print.line(escapeControls(content.slice(shown.length)))
      printFiles(this.#svc, frame)
    } else {
      this.end()
      printFrame(this.#svc, frame)
    }
  }

  end(): void {
    if (this.#shown.length > 0) this.#svc.print.line('')
    this.#shown = []
  }
}

function printFrame(svc: SvcContext, frame: LinkFrame): void {
  const { io, print } = svc
  const { kind, content } = frame
  if (kind === 'message') {
    if (content !== '' || !frame.files) print.line(io.stdout.isTerminal ? escapeControls(content) : content)
    printFiles(svc, frame)
  } else if (io.stderr.isTerminal) print.say(`… ${cell(content)}`)
}

/** To stderr, so that stdout has the text only. */
function printFiles({ print }: SvcContext, { files = [] }: LinkFrame): void {
  for (const { name, type, size } of files) print.say(`file: ${cell(name)} (${cell(type)}, ${size} bytes)`)
}

/** Keeps line breaks and tabs. Escapes control characters, since an agent may repeat text of strangers. */
function escapeControls(text: string): string {
  return text
    .split('\n')
    .map((line) => line.split('\t').map(cell).join('\t'))
    .join('\n')
}
