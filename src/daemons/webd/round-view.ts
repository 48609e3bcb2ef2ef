// A round as JSON for polling and as a page for browsers without JavaScript. See docs/decisions.md#rounds.
import { readFilesOfMessages } from '../../core/files/chat-files.ts'
import { decodeContent, messages } from '../../core/messages/messages.ts'
import { type Round, readFrames } from '../../core/turns/rounds.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { type FileLimits, type HtmlPage, roundPage } from '../../web/chat/page.ts'
import type { AgentProfile } from '../../web/text/agent-profile.ts'
import type { Texts } from '../../web/texts/en.ts'

const FRAMES_MAX = 200

export async function pollRound(tx: Tx, round: Round, after: number) {
  const { id, status, error, last_seq } = round
  const frames = await readFrames(tx, id, after, FRAMES_MAX)
  return { turn_id: id, status, frames, last_seq, ...(error === undefined ? {} : { error }) }
}

export async function renderRoundPage(
  tx: Tx,
  round: Round,
  options: { readonly agent: AgentProfile; readonly limits?: FileLimits; readonly texts: Texts },
): Promise<HtmlPage> {
  const question = await messages.find(tx, { seq: round.message_seq })
  const turn = await pollRound(tx, round, Math.max(0, round.last_seq - FRAMES_MAX))
  const files = (await readFilesOfMessages(tx, [round.message_seq])).get(round.message_seq)
  return roundPage({ ...options, question: question ? decodeContent(question.content) : '', files, turn })
}

export function readSequence(text: string | undefined, name: string): number | undefined {
  if (text === undefined || text === '') return undefined
  if (!/^\d{1,15}$/.test(text)) refuse('invalid', `${name} must be a whole number of at least 0`)
  return Number(text)
}

export function readFlag(text: string | undefined, name: string): boolean {
  if (text !== undefined && !/^[01]?$/.test(text)) refuse('invalid', `${name} must be 1 or 0`)
  return text === '1'
}

/** The named query parameters; refuses one that is given twice. */
export function readUniqueQuery(
  query: string,
  names: readonly string[],
): { readonly [name: string]: string | undefined } {
  if (query === '') return {}
  const given = new URLSearchParams(query)
  return Object.fromEntries(
    names.map((name) => {
      const values = given.getAll(name)
      if (values.length > 1) refuse('invalid', `${name} is given twice`)
      return [name, values[0]]
    }),
  )
}
