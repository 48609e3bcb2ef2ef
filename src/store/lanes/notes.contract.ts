// The handler that the contract of lanes tests.
import { run } from '../../../test/support/sql.ts'
import { entries } from '../things.contract.ts'
import type { LaneHandler } from './lane.ts'

export interface Note {
  readonly source: string
  readonly text: string
  readonly bytes: number
}

/** Notes in one piece of deferred work. */
const PIECE_NOTES = 10

/** A text with `throw` makes the handler throw, `twice` violates a key, and `urgent` makes a note urgent. */
export const noteHandler: LaneHandler<Note, { readonly id: number; readonly text: string }> = {
  byteSize: ({ bytes }) => bytes,
  source: ({ source }) => source,
  isUrgent: ({ text }) => text.startsWith('urgent'),

  run: async (tx, _, notes) => {
    const answers = []
    for (const { text } of notes) {
      if (text.includes('throw')) throw new Error('a bug in the handler')
      const { id } = await entries.insertReturning(tx, { name: `new ${text}` })
      if (text.includes('twice')) await run(tx, 'insert into entries (id, name) values ($1, $2)', [id, text])
      answers.push({ id, text })
    }
    return answers
  },

  runDeferred: async (tx) => {
    const { rows } = await run(
      tx,
      `select id, name from entries where name like 'new %' order by id limit ${PIECE_NOTES}`,
    )
    for (const { id, name } of rows)
      await run(tx, 'update entries set name = $1 where id = $2', [String(name).replace('new', 'old'), Number(id)])
    return { isMore: rows.length === PIECE_NOTES, keys: rows.map(({ name }) => String(name).slice(4)) }
  },
}
