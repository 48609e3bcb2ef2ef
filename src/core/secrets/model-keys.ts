// API keys of the instance's model endpoints, sealed in the store; .env contains the word `sealed` in their place. The seal is
// bound to the endpoint's URL: after the URL changes the key does not open, so it is never sent to another endpoint.
import { z } from 'zod'
import { trimTrailing } from '../../lib/text/trimming.ts'
import { Table } from '../../store/table.ts'
import { Bytes, line, Timestamp } from '../values.ts'

/** The value in .env of a key that is in the store. */
export const SEALED = 'sealed'

export const MODEL_KEYS = ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'CLAUDE_CODE_OAUTH_TOKEN'] as const
export type ModelKeyName = (typeof MODEL_KEYS)[number]

/** Settings of .env that select the model of the instance. */
export const MODEL_SETTINGS = [
  'AGENT_RUNTIME',
  'AGENT_COMMAND',
  'AGENT_MODEL',
  'ANTHROPIC_BASE_URL',
  'OPENAI_BASE_URL',
  'OPENAI_MODEL',
  'OPENAI_PRICE_INPUT',
  'OPENAI_PRICE_CACHED',
  'OPENAI_PRICE_OUTPUT',
  ...MODEL_KEYS,
] as const
export type ModelSetting = (typeof MODEL_SETTINGS)[number]

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

/** Binds the seal. A trailing slash does not change the endpoint. */
export function modelKeyContext({ variable, endpoint }: Pick<ModelKey, 'variable' | 'endpoint'>): string {
  return `model key ${variable} ${trimTrailing(endpoint, '/')}`
}
