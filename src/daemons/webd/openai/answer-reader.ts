// Reads the events of a round from `Streams`, whose subscribers are writables: its limits hold for this one, too.
import { Writable } from 'node:stream'
import { z } from 'zod'
import { parseJson } from '../../../lib/text/json.ts'
import { parse } from '../../../lib/text/schema-parser.ts'
import { type AnswerText, DraftEvent, FrameEvent } from './answer-text.ts'

const OutcomeEvent = z.object({ status: z.enum(['success', 'failed']), error: z.string().optional() })
export type AnswerOutcome = z.output<typeof OutcomeEvent>

export interface AnswerReader {
  readonly sink: Writable
  /** Undefined if the stream ended before the round. */
  readonly outcome: Promise<AnswerOutcome | undefined>
}

const EVENT = /^(?:id: \d+\n)?event: (\w+)\ndata: /

/** `send` gets the text that was added, or undefined to keep a connection open. The next event waits for its promise. */
export function openAnswerReader(
  text: AnswerText,
  send: (added: string | undefined) => Promise<void> | undefined = () => undefined,
): AnswerReader {
  const { promise, resolve } = Promise.withResolvers<AnswerOutcome | undefined>()
  let outcome: AnswerOutcome | undefined
  const take = async (event: string): Promise<void> => {
    const [head, name] = EVENT.exec(event) ?? []
    if (head === undefined) return send(undefined)
    if (name === 'activity') return
    const data = parseJson(event.slice(head.length))
    if (name === 'round_done') {
      outcome = parse(OutcomeEvent, data)
      return
    }
    const added = name === 'delta' ? text.takeDraft(parse(DraftEvent, data)) : text.takeFrame(parse(FrameEvent, data))
    if (added !== '') await send(added)
  }
  const sink = new Writable({
    decodeStrings: false,
    write: (event: string | Buffer, _, done) => void take(event.toString()).then(() => done(), done),
  })
  // The stream ends without an outcome.
  sink.on('error', () => {})
  sink.once('close', () => resolve(outcome))
  return { sink, outcome: promise }
}
