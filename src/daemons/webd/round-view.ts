// A round as it is polled (decision L12), and as a page for browsers without script.
import { messages, textOf } from '../../core/messages.ts'
import { framesAfter, type Round } from '../../core/rounds.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { type Page, roundPage } from '../../web/chat/page.ts'

const FRAMES_MAX = 200

export async function polledRound(tx: Tx, round: Round, after: number) {
  const { id, status, error, last_seq } = round
  const frames = await framesAfter(tx, id, after, FRAMES_MAX)
  return { turn_id: id, status, frames, last_seq, ...(error === undefined ? {} : { error }) }
}

export async function pageOfRound(tx: Tx, round: Round, name: string): Promise<Page> {
  const question = await messages.find(tx, { seq: round.message_seq })
  const turn = await polledRound(tx, round, Math.max(0, round.last_seq - FRAMES_MAX))
  return roundPage({ name, question: question ? textOf(question.content) : '', turn })
}

/** A sequence that a client has: a whole number, once. */
export function readAfter(text: string | undefined, name: string): number | undefined {
  if (text === undefined || text === '') return undefined
  if (!/^\d{1,15}$/.test(text)) refuse('invalid', `${name} must be a whole number of at least 0`)
  return Number(text)
}

/** The members of a query, each at most once. */
export function readQuery(query: string, names: readonly string[]): { readonly [name: string]: string | undefined } {
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
