// The work that the contract of lanes is tried on; a module of its own, because an engine's thread loads it too.
import type { Work } from './lane.ts'
import { run } from './statement.ts'
import { entries } from './things.contract.ts'

export interface Note {
  readonly source: string
  readonly text: string
  readonly bytes: number
}

/** How many are tidied up in one piece. */
const PIECE = 10

/** `throw` in a text is a bug of the work, `twice` a refusal of the store; for `urgent` somebody waits. */
export const work: Work<Note, { readonly id: number; readonly text: string }> = {
  module: import.meta.url,
  weigh: ({ bytes }) => bytes,
  source: ({ source }) => source,
  isUrgent: ({ text }) => text.startsWith('urgent'),
  pack: (notes) => ({
    values: notes.flatMap(({ source, text, bytes }) => [source, text, bytes]),
    bytes: new Uint8Array(),
  }),
  unpack: ({ values }) =>
    Array.from({ length: values.length / 3 }, (_, at) => ({
      source: String(values[at * 3]),
      text: String(values[at * 3 + 1]),
      bytes: Number(values[at * 3 + 2]),
    })),

  run: async (tx, _, notes) => {
    const answers = []
    for (const { text } of notes) {
      if (text.includes('throw')) throw new Error('a bug in the work')
      const { id } = await entries.add(tx, { name: `new ${text}` })
      if (text.includes('twice')) await run(tx, 'insert into entries (id, name) values ($1, $2)', [id, text])
      answers.push({ id, text })
    }
    return answers
  },

  tidy: async (tx) => {
    const { rows } = await run(tx, `select id, name from entries where name like 'new %' order by id limit ${PIECE}`)
    for (const { id, name } of rows)
      await run(tx, 'update entries set name = $1 where id = $2', [String(name).replace('new', 'old'), Number(id)])
    return { isMore: rows.length === PIECE, keys: rows.map(({ name }) => String(name).slice(4)) }
  },
}
