// Hashes of the keys of forms that were carried out: a form that is sent twice, by a double click or after a failure, runs once.
import { hash } from 'node:crypto'
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { Timestamp } from '../values.ts'

export const formKeys = new Table({
  name: 'form_keys',
  row: z.object({ form_key: z.string(), expires_at: Timestamp }),
  key: 'form_key',
  storage: [
    'create table form_keys (form_key text primary key, expires_at text not null)',
    'create index form_keys_ended on form_keys (expires_at)',
  ],
})

/** A page stays open for days, and its forms with it. */
const KEPT_MS = 7 * 24 * 3_600_000

/** Call it in the transaction of the change. */
export async function useFormKey(tx: Tx, key: string, nowMs: number): Promise<void> {
  // Browsers choose the key, so its length is not limited.
  const form_key = hash('sha256', key, 'base64url')
  if (await formKeys.find(tx, { form_key }))
    refuse('conflict', 'this form was sent before, and was carried out once', 'reload the page to see the result')
  await formKeys.insert(tx, { form_key, expires_at: timestamp(nowMs + KEPT_MS) })
}
