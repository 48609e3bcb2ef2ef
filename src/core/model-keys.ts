// Keys of the instance's model endpoints, sealed in the store. In place of such a key .env holds the word `sealed`. The seal is
// bound to the URL of the endpoint: after the URL has been changed the key does not open, so it never reaches another endpoint.
import { z } from 'zod'
import { Table } from '../store/table.ts'
import { Bytes, line, Timestamp } from './values.ts'

/** What .env says of a key that is in the store. */
export const SEALED = 'sealed'

export const MODEL_KEYS = ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'CLAUDE_CODE_OAUTH_TOKEN'] as const
export type ModelKeyName = (typeof MODEL_KEYS)[number]

export const ModelKey = z.object({
  variable: z.enum(MODEL_KEYS),
  endpoint: line(2048).describe('URL of the endpoint that the key is for'),
  value: Bytes.meta({ writeOnly: true }),
  created_at: Timestamp.meta({ readOnly: true }),
})
export type ModelKey = z.output<typeof ModelKey>

export const modelKeys = new Table({
  name: 'model_keys',
  row: ModelKey,
  key: 'variable',
  storage: [
    `create table model_keys (
       variable text primary key, endpoint text not null, value bytea not null, created_at text not null)`,
  ],
})

/** Bound into the seal. A slash at the end makes no other endpoint. */
export function modelKeyContext({ variable, endpoint }: Pick<ModelKey, 'variable' | 'endpoint'>): string {
  return `model key ${variable} ${endpoint.replace(/\/+$/, '')}`
}
